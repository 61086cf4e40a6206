// Runs the program as a user does.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "attention_variants/base/files.h"
#include "harness/commands/program.h"
#include "harness/host/runtime.h"
#include "harness/training/run_folder.h"
#include "lra/data/task.h"
#include "tests/support/scratch.h"

namespace lra {

struct ProgramResult {
  int status = -1;  // exit status, or 128 + the signal that ended it
  std::string out, err;
  std::string text() const { return out + err; }
};

/// A started `lra`, or another program with its command line, whose output goes to files in a
/// folder of its own.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments,
                   const std::filesystem::path& program = LRA_PROGRAM)
      : Program(std::move(arguments), program, /*loaded=*/false) {}

  /// lra in a fork of this process, which has LibTorch loaded already: loading it takes a quarter
  /// of a second. What it starts itself is this file under the name lra (main.cpp).
  static Program forked(std::vector<std::string> arguments) {
    return Program(std::move(arguments), LRA_PROGRAM, /*loaded=*/true);
  }

  /// What a failed assertion leaves running would take the time of the tests after it.
  ~Program() {
    if (waited_ || child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return child_; }
  void send(int signal) const { kill(child_, signal); }

  /// True once it has ended, by itself or by a signal.
  bool ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  }

  ProgramResult wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    waited_ = true;
    return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            .out = read_file(scratch_.path() / "out"),
            .err = read_file(scratch_.path() / "err")};
  }

 private:
  Program(std::vector<std::string> arguments, const std::filesystem::path& program, bool loaded) {
    arguments.insert(arguments.begin(), program.filename().string());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = (scratch_.path() / "out").string(),
                      err = (scratch_.path() / "err").string();
    std::fflush(nullptr);  // or a fork would write what this process has not written yet
    child_ = fork();
    if (child_ == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
      if (loaded) host::end_process(run_program(static_cast<int>(arguments.size()), argv.data()));
      execv(program.c_str(), argv.data());
      _exit(127);
    }
  }

  Scratch scratch_;
  pid_t child_ = -1;
  bool waited_ = false;
};

/// Runs `lra` in a fork, unless this process has threads, which a fork would lack.
inline ProgramResult run_program(std::vector<std::string> arguments) {
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  if (threads > 1) return Program(std::move(arguments)).wait();
  return Program::forked(std::move(arguments)).wait();
}

/// A run of the program that ends well and says nothing on stderr; returns its stdout.
inline std::string output_of(const std::vector<std::string>& words) {
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out, "");
  return result.out;
}

/// A run that ends with `status`, one line on stderr with `message` in it, and nothing on stdout.
inline void expect_refusal(const std::vector<std::string>& words, int status,
                           const std::string& message) {
  std::string command = "lra";
  for (const std::string& word : words) command += " " + word;
  SCOPED_TRACE(command);
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_NE(result.err.find(message), std::string::npos)
      << "expected: " << message << "\ngot: " << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  EXPECT_EQ(result.out, "");
}

/// An environment variable, as it was again at the end.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value, /*overwrite=*/1);
  }
  ~ScopedVariable() {
    if (old_) {
      setenv(name_, old_->c_str(), /*overwrite=*/1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// A tiny ListOps in `out`: expressions of 11 to 59 tokens.
inline void prepare_tiny_listops(const std::filesystem::path& out, int64_t train = 192,
                                 int64_t dev = 40) {
  task("listops").prepare({.out = out,
                           .seed = 5,
                           .train = train,
                           .dev = dev,
                           .test = 50,
                           .min_length = 10,
                           .max_length = 60});
}

/// Waits until `done`, for a minute at most; false where the program ended first.
template <class Done>
bool wait_until(const Program& program, Done done) {
  for (int i = 0; i < 6000 && !program.ended(); ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done() && !program.ended();
}

/// Settings that make a run of seconds of it.
inline std::vector<std::string> tiny_settings(int64_t steps = 12) {
  return {"input.length=64",      "training.steps=" + std::to_string(steps),
          "training.batch=8",     "training.evaluate_every=4",
          "training.log_every=3", "schedule.warmup=4",
          "evaluation.batch=16",  "optimizer.lr=0.001"};
}

/// The words of an `lra train` for such a run.
inline std::vector<std::string> tiny_train(const std::filesystem::path& data,
                                           const std::filesystem::path& run,
                                           const std::string& attention, int64_t steps = 12) {
  std::vector<std::string> words = {"train",       "--task",    "listops",    "--attention",
                                    attention,     "--threads", "1",          "--data",
                                    data.string(), "--run",     run.string(), "--resume"};
  for (const std::string& set : tiny_settings(steps)) words.insert(words.end(), {"--set", set});
  return words;
}

/// Starts `lra` and kills it `delay` after it first writes the last checkpoint of one of `runs`.
/// True where that hit a run in progress: right after it, one of them has a checkpoint and no
/// result.
inline bool kill_in_training(const std::vector<std::string>& words,
                             const std::vector<std::filesystem::path>& runs,
                             std::chrono::milliseconds delay) {
  const auto written = [](const std::filesystem::path& run) {
    std::error_code missing;  // the time is then the earliest there is
    return std::filesystem::last_write_time(run / kLastCheckpoint, missing);
  };
  std::vector<std::filesystem::file_time_type> before;
  for (const auto& run : runs) before.push_back(written(run));
  Program program(words);
  const auto trains = [&] {
    for (size_t i = 0; i < runs.size(); ++i) {
      if (written(runs[i]) > before[i]) return true;
    }
    return false;
  };
  while (!trains() && !program.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::this_thread::sleep_for(delay);
  program.send(SIGKILL);
  const ProgramResult result = program.wait();
  const bool hit = result.status == 128 + SIGKILL &&
                   std::ranges::any_of(runs, [](const std::filesystem::path& run) {
                     return std::filesystem::exists(run / kLastCheckpoint) &&
                            !std::filesystem::exists(run / kResultFile);
                   });
  EXPECT_TRUE(result.status == 0 || result.status == 128 + SIGKILL) << result.err;

  // The child of a killed suite may still write its last checkpoint: it holds its folder for as
  // long.
  for (const auto& run : runs) {
    for (int attempt = 0; std::filesystem::exists(run) && attempt < 6000; ++attempt) {
      try {
        const host::FolderLock lock(run);
        break;
      } catch (const Error&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }
  return hit;
}

inline std::vector<std::string> with(std::vector<std::string> words,
                                     const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The records of a file that has one a line; none where there is no file.
inline std::vector<json> read_lines(const std::filesystem::path& path) {
  std::vector<json> records;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) records.push_back(json::parse(line));
  return records;
}

/// The log of a run, but for the times in it.
inline std::vector<json> log_without_clocks(const std::filesystem::path& run) {
  std::vector<json> log = read_lines(run / kMetricsFile);
  for (json& entry : log) {
    for (const char* clock : {"seconds", "time"}) entry.erase(clock);
  }
  return log;
}

/// The lines of a text, without what ends them.
inline std::vector<std::string> text_lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) found.push_back(line);
  return found;
}

/// What stands on the line of a table that begins with a name.
inline std::string line_of(const std::string& text, const std::string& name) {
  for (const std::string& line : text_lines(text)) {
    if (line.starts_with(name + " ")) return line;
  }
  return "";
}

}  // namespace lra
