#include "harness/suite/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <list>
#include <map>
#include <thread>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/suite/cell.h"
#include "harness/suite/heartbeat.h"
#include "harness/training/run_files.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A process that is asked to stop for its time may write a checkpoint first.
constexpr double kGrace = 60;
// How often the cells that others hold are looked at.
constexpr std::chrono::milliseconds kLook{500};

// Two files of one name with equal stamps are one file, unchanged.
struct Stamp {
  fs::file_time_type time;
  uintmax_t size = 0;
  bool operator==(const Stamp&) const = default;
};
std::optional<Stamp> stamp_of(const fs::path& path) {
  std::error_code missing;
  const auto time = fs::last_write_time(path, missing);
  if (missing) return std::nullopt;
  return Stamp{time, fs::file_size(path, missing)};
}

struct Job {
  size_t cell, slot;
  FolderLock claim;
  Child child;
  std::string begin;
  std::optional<Stamp> checkpoint;  // before it began
  uintmax_t log_from;               // where its part of the log begins
};

class SuiteRunner {
 public:
  SuiteRunner(const Suite& suite, const RunnerOptions& options)
      : suite_(suite), options_(options), ended_(suite.cells.size(), false) {
    for (const std::string& device : options.devices) {
      const int64_t slots = device == "cpu" ? options.jobs : 1;
      for (int64_t i = 0; i < slots; ++i) slots_.push_back({.device = device});
    }
    if (slots_.size() > 1 && slots_.front().device == "cpu")
      memory_limit_ = default_memory_limit() / static_cast<int64_t>(slots_.size());
    for (size_t i = 0; i < suite.cells.size(); ++i) {
      if (!options.only.empty() && std::ranges::count(options.only, i) == 0) continue;
      chosen_.push_back(i);
      const auto status = final_status(run(i));
      if (status == Status::crash || (status == Status::timeout && time_left(i) > 0))
        again_[i] = *stamp_of(run(i) / kResultFile);
    }
  }

  // The number of chosen cells that did not end as ok.
  int64_t run_cells(const std::map<std::string, fs::path>& data) {
    look();
    if (left_ < chosen_.size())
      say(fmt::format("{} of {} cells have ended already", chosen_.size() - left_, chosen_.size()));
    std::optional<Progress> progress;
    if (slots_.size() > 1) progress.emplace("cells", chosen_.size(), chosen_.size() - left_);
    auto looked = Clock::now() - kLook;
    for (;;) {
      const bool freed = reap(data);
      if (stop_requested()) {
        if (jobs_.empty()) throw Interrupted("stopped; the same command with --resume goes on");
      } else if (freed || Clock::now() - looked >= kLook) {
        look();
        looked = Clock::now();
        if (left_ == 0 && jobs_.empty()) break;
        fill(data);
        if (jobs_.empty()) tell_waiting();
      }
      if (progress) progress->update(static_cast<int64_t>(chosen_.size() - left_), note());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (progress) progress->finish();
    return std::ranges::count_if(chosen_,
                                 [&](size_t i) { return final_status(run(i)) != Status::ok; });
  }

 private:
  struct Slot {
    std::string device;
    bool busy = false;
  };

  const fs::path& run(size_t i) const { return suite_.cells[i].run; }
  std::string label(size_t i) const {
    return fmt::format("[{}/{}] {}", i + 1, suite_.cells.size(), suite_.cells[i].label());
  }
  // Seconds that a cell may still take; huge without a limit.
  double time_left(size_t i) const {
    return options_.timeout > 0 ? options_.timeout - attempt_seconds(run(i)) : 1e18;
  }

  // Whether a cell's result stands. A crash, and a cell that ran out of time and now has more, is
  // tried again where it was there when this runner began; one that appears later, from another
  // runner, stands: else two would try a hopeless cell in turns for ever.
  bool has_ended(size_t i) const {
    const auto status = final_status(run(i));
    if (!status) return false;
    const auto it = again_.find(i);
    return it == again_.end() || stamp_of(run(i) / kResultFile) != it->second;
  }

  void look() {
    left_ = 0;
    for (const size_t i : chosen_) {
      if (!ended_[i]) ended_[i] = has_ended(i);
      left_ += ended_[i] ? 0 : 1;
    }
  }

  // Starts cells until every slot is busy or none is free to be had.
  void fill(const std::map<std::string, fs::path>& data) {
    for (const size_t i : chosen_) {
      const auto slot = std::ranges::find(slots_, false, &Slot::busy);
      if (slot == slots_.end()) return;
      const bool ours = std::ranges::count(jobs_, i, &Job::cell) > 0;
      if (!ended_[i] && !ours) start(i, static_cast<size_t>(slot - slots_.begin()), data);
    }
  }

  void start(size_t i, size_t slot, const std::map<std::string, fs::path>& data) {
    const SuiteCell& cell = suite_.cells[i];
    fs::create_directories(cell.run);
    auto claim = FolderLock::try_lock(cell.run, kClaim);
    // The process of a runner that was killed may still be writing its last checkpoint.
    if (!claim || lock_holder(cell.run)) return;
    ended_[i] = has_ended(i);  // another may have ended it since we looked
    if (ended_[i]) return;
    const fs::path& directory = data.at(cell.config.task);
    const double left = time_left(i);
    if (left <= 0) {
      end(i, directory, slots_[slot].device, Status::timeout, timeout_reason());
      return;
    }
    std::string bad;
    if (!final_status(cell.run, &bad) && !bad.empty())
      say(fmt::format("{}: {}; it is left out and the cell runs again", label(i), bad));
    fs::remove(cell.run / kResultFile);
    again_.erase(i);
    const fs::path log = slots_.size() > 1 ? cell.run / kLogFile : fs::path();
    if (tries_[i] == 0) say(label(i));
    std::error_code none;
    const auto size = fs::file_size(log, none);
    Job job{.cell = i,
            .slot = slot,
            .claim = std::move(*claim),
            .child = Child(words(cell, directory, slots_[slot].device),
                           {.timeout = options_.timeout > 0 ? left : 0,
                            .grace = kGrace,
                            .log = log,
                            .oom_preferred = true}),
            .begin = utc_now(),
            .checkpoint = stamp_of(cell.run / kLastCheckpoint),
            .log_from = none ? 0 : size};
    slots_[slot].busy = true;
    jobs_.push_back(std::move(job));
  }

  std::vector<std::string> words(const SuiteCell& cell, const fs::path& data,
                                 const std::string& device) const {
    std::vector<std::string> words = {"train",
                                      "--task",
                                      cell.config.task,
                                      "--attention",
                                      cell.config.attention.text(),
                                      "--protocol",
                                      suite_.request.protocol,
                                      "--seed",
                                      std::to_string(cell.config.seed),
                                      "--data",
                                      data.string(),
                                      "--run",
                                      cell.run.string(),
                                      "--resume",
                                      "--device",
                                      device,
                                      "--dtype",
                                      suite_.request.dtype,
                                      "--threads",
                                      std::to_string(suite_.request.threads)};
    for (const std::string& set : cell.sets) words.insert(words.end(), {"--set", set});
    if (memory_limit_ > 0)
      words.insert(words.end(), {"--memory-limit", std::to_string(memory_limit_)});
    if (is_quiet()) words.push_back("--quiet");
    return words;
  }

  // Takes leave of processes that have ended; true where there was one.
  bool reap(const std::map<std::string, fs::path>& data) {
    bool any = false;
    for (auto job = jobs_.begin(); job != jobs_.end();) {
      const auto ended = job->child.poll();
      if (!ended) {
        ++job;
        continue;
      }
      settle(*job, *ended, data.at(suite_.cells[job->cell].config.task));
      slots_[job->slot].busy = false;
      job = jobs_.erase(job);
      any = true;
    }
    return any;
  }

  // What the end of a process means for its cell.
  void settle(const Job& job, const ChildStatus& ended, const fs::path& data) {
    const size_t i = job.cell;
    const std::string device = slots_[job.slot].device;
    const auto status = final_status(run(i));
    Attempt one{.begin = job.begin,
                .device = device,
                .threads = suite_.request.threads,
                .seconds = ended.seconds,
                .ended = status ? text(*status) : ""};
    if (status) {
      append_try(run(i), one);
      ended_[i] = true;
      say(label(i) + ": " + text(*status));
      return;
    }
    const bool asked = ended.exit == 130 || ended.signal == SIGTERM || ended.signal == SIGINT;
    const std::string said = said_last(job);
    one.ended = ended.timed_out       ? text(Status::timeout)
                : ended.out_of_memory ? text(Status::oom)
                : asked               ? "asked to stop"
                                      : ended.text() + (said.empty() ? "" : ": " + said);
    append_try(run(i), one);
    if (ended.timed_out) {
      end(i, data, device, Status::timeout, timeout_reason());
    } else if (ended.out_of_memory) {
      end(i, data, device, Status::oom, "out of memory: killed by the kernel");
    } else if (!asked && !stop_requested()) {
      // As long as a run gets further between two deaths, it will end.
      const bool further = stamp_of(run(i) / kLastCheckpoint) != job.checkpoint;
      tries_[i] = further ? 1 : tries_[i] + 1;
      const bool hopeless = ended.exit == 2 || tries_[i] >= options_.tries;
      if (hopeless) {
        end(i, data, device, Status::crash,
            tries_[i] > 1 ? fmt::format("{} tries without a new checkpoint; the last: {}",
                                        tries_[i], one.ended)
                          : one.ended);
      } else {
        say(fmt::format("{}: {}; once more", label(i), one.ended));
      }
    }
  }

  void end(size_t i, const fs::path& data, const std::string& device, Status status,
           const std::string& reason) {
    record_failure(suite_.cells[i], data, device, status, reason);
    ended_[i] = true;
    say(fmt::format("{}: {} ({})", label(i), status, reason));
  }

  std::string timeout_reason() const {
    return fmt::format("took longer than {:g} s", options_.timeout);
  }

  // The last line of its part of the log.
  std::string said_last(const Job& job) const {
    std::ifstream in(run(job.cell) / kLogFile);
    if (slots_.size() == 1 || !in.seekg(static_cast<std::streamoff>(job.log_from))) return "";
    return last_line({std::istreambuf_iterator<char>(in), {}});
  }

  void tell_waiting() {
    if (waiting_) return;
    for (const size_t i : chosen_) {
      if (ended_[i]) continue;
      const auto holder = cell_holder(run(i));
      if (!holder) return;
      say(fmt::format("waiting for {} of {} cells that others have, {} at {}", left_,
                      chosen_.size(), holder->text(), label(i)));
      waiting_ = true;
      return;
    }
  }

  std::string note() const {
    std::string text;
    for (const Job& job : jobs_)
      text += (text.empty() ? "at " : ", ") + suite_.cells[job.cell].label();
    return text;
  }

  const Suite& suite_;
  const RunnerOptions& options_;
  std::vector<Slot> slots_;
  std::vector<size_t> chosen_;
  std::vector<bool> ended_;
  std::map<size_t, Stamp> again_;    // results of earlier calls that do not stand
  std::map<size_t, int64_t> tries_;  // deaths in a row without a new checkpoint
  std::list<Job> jobs_;
  size_t left_ = 0;
  int64_t memory_limit_ = 0;
  bool waiting_ = false;
};

void append_quiet(std::vector<std::string>& words) {
  if (is_quiet()) words.push_back("--quiet");
}

// False where it did not finish. It runs once, when every cell has ended: beside training, times
// would say nothing.
bool profile(const Suite& suite, const RunnerOptions& options) {
  const fs::path& out = suite.request.out;
  const FolderLock lock = FolderLock::wait(out, "profile.lock", "the profile");
  const fs::path done = out / "profile.done", file = out / kProfileFile;
  if (fs::exists(done) && fs::exists(file)) return true;
  say("profile");
  const ProfileBudget& budget = suite.request.budget.profile;
  std::string attentions;
  for (const AttentionSpec& attention : suite.request.attentions)
    attentions += fmt::format("{}{}", attentions.empty() ? "" : ",", attention.text());
  std::vector<std::string> words = {"profile",
                                    "--preset",
                                    budget.preset,
                                    "--scope",
                                    budget.scope,
                                    "--mode",
                                    budget.mode,
                                    "--lengths",
                                    budget.lengths,
                                    "--attentions",
                                    attentions,
                                    "--seconds",
                                    fmt::format("{}", budget.seconds),
                                    "--out",
                                    file.string(),
                                    "--device",
                                    options.devices.front(),
                                    "--dtype",
                                    suite.request.dtype,
                                    "--threads",
                                    std::to_string(options.threads)};
  append_quiet(words);
  const ChildStatus ended = run_child(words);
  const bool finished = ended.exit == 0 && ended.signal == 0;
  if (finished) {
    write_json(done, {{"host", host_name()}, {"at", utc_now()}});
  } else {
    say("lra profile did not finish; the table holds the cells it measured");
  }
  return finished;
}

// Every runner writes it: the same records make the same tables, and the last one has all.
void report(const Suite& suite) {
  const fs::path& out = suite.request.out;
  const FolderLock lock = FolderLock::wait(out, "report.lock", "the report");
  std::vector<std::string> words = {"report", (out / "runs").string()};
  if (fs::exists(out / kProfileFile)) words.push_back((out / kProfileFile).string());
  words.insert(words.end(), {"--out", (out / "report").string()});
  append_quiet(words);
  const ChildStatus ended = run_child(words);
  if (ended.exit != 0 || ended.signal != 0)
    throw Error(fmt::format("the report was not made ({}); lra report {} {} --out {} makes it",
                            ended.text(), words[1], (out / kProfileFile).string(),
                            (out / "report").string()));
}

}  // namespace

int64_t run_suite(const Suite& suite, const RunnerOptions& options) {
  for (const std::string& device : options.devices) parse_device(device);
  const fs::path& out = suite.request.out;
  const RunnerHeartbeat mark(out);
  const std::vector<TaskData> data = suite_data(suite);
  {
    const FolderLock lock = FolderLock::wait(out, "data.lock", "the data");
    make_data(data);
  }
  std::map<std::string, fs::path> folders;  // by task
  for (const TaskData& of_task : data) {
    open_data(of_task.directory, of_task.task, /*check_hashes=*/false);
    folders[of_task.task] = of_task.directory;
  }
  int64_t failed = SuiteRunner(suite, options).run_cells(folders);
  if (!options.only.empty()) return failed;
  failed += profile(suite, options) ? 0 : 1;
  report(suite);
  return failed;
}

}  // namespace lra
