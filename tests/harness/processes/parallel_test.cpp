// lra train and lra evaluate as several processes under mpirun: the run of one, to rounding; the
// same bits after a stop or a kill; one message for an error. Not in a build without MPI.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "lra/formats/safetensors.h"
#include "tests/harness/suite/fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// The program of that name in PATH, or nothing.
fs::path find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((fs::path(folder) / name).c_str(), X_OK) == 0) return fs::path(folder) / name;
  }
  return {};
}

// What `mpirun` is called with for `count` processes of `lra words`.
Words as_processes(int count, const Words& words) {
  return with({"-n", std::to_string(count), LRA_PROGRAM}, words);
}

Words mpirun_words(const Words& words) {
  // One machine, as root or not, with more processes than processors.
  return with({"--oversubscribe", "--allow-run-as-root", "--bind-to", "none"}, words);
}

class ParallelTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string version = run_program({"--version"}).out;
    if (version.find("mpi Open MPI") == std::string::npos)
      GTEST_SKIP() << "built with another MPI: " << version;
    mpirun_ = find_program("mpirun");
    if (mpirun_.empty()) GTEST_SKIP() << "no mpirun in PATH";
    prepare_tiny_listops(data_);
  }

  Words words(const std::string& run, const std::string& attention, int64_t steps,
              const Words& sets = {}) const {
    Words all = tiny_train(data_, this->run(run), attention, steps);
    for (const std::string& set : sets) all = with(all, {"--set", set});
    return all;
  }
  ProgramResult processes(int count, const Words& lra_words) const {
    return Program(mpirun_words(as_processes(count, lra_words)), mpirun_).wait();
  }
  static void run_alone(const Words& lra_words) {
    const ProgramResult result = run_program(lra_words);
    ASSERT_EQ(result.status, 0) << result.text();
  }
  fs::path run(const std::string& name) const { return scratch_.path() / name; }

  Scratch scratch_;
  fs::path data_ = scratch_.path() / "data", mpirun_;
};

// The largest difference between the tensors whose names begin with `prefix`, in parts of the
// largest element of all of them.
double difference(const fs::path& a, const fs::path& b, const std::string& prefix) {
  const TensorFile x = read_tensors(a / kLastCheckpoint), y = read_tensors(b / kLastCheckpoint);
  double most = 0, scale = 0;
  for (const auto& [name, tensor] : x.tensors) {
    if (!name.starts_with(prefix)) continue;
    scale = std::max(scale, tensor.abs().max().item<double>());
    most = std::max(most, (tensor - y.at(name)).abs().max().item<double>());
  }
  return most / scale;
}

// Gradients sum about a thousand float32 terms in another order; AdamW divides them by their own
// size, which enlarges the differences of small ones, up to the learning rate (1e-3).
void expect_equal_to_rounding(const fs::path& a, const fs::path& b) {
  SCOPED_TRACE(a.string() + " and " + b.string());
  const TensorFile x = read_tensors(a / kLastCheckpoint), y = read_tensors(b / kLastCheckpoint);
  for (const auto& [name, tensor] : x.tensors) {
    if (name.starts_with("model.")) {
      EXPECT_LT((tensor - y.at(name)).abs().max().item<double>(), 1e-5) << name;
    }
    if (name.starts_with("random.")) {
      EXPECT_TRUE(torch::equal(tensor, y.at(name))) << name;
    }
  }
  const std::vector<json> log = read_lines(a / kMetricsFile), other = read_lines(b / kMetricsFile);
  ASSERT_EQ(log.size(), other.size());
  for (size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i]["step"], other[i]["step"]);
    EXPECT_EQ(log[i]["split"], other[i]["split"]);
    EXPECT_NEAR(log[i]["loss"].get<double>(), other[i]["loss"].get<double>(), 1e-5);
    EXPECT_NEAR(log[i]["accuracy"].get<double>(), other[i]["accuracy"].get<double>(), 0.03)
        << "an example or so may change sides";
  }
}

// A batch of 10, so that four processes take 3, 3, 2 and 2; with dropout.
TEST_F(ParallelTest, GradientsAndRunsAreThoseOfOneProcess) {
  const Words one_step = {"training.batch=10", "schedule.kind=constant"},
              steps = {"training.batch=10", "optimizer.clip_norm=1"};
  ASSERT_NO_FATAL_FAILURE(run_alone(words("one1", "standard", 1, one_step)));
  ASSERT_NO_FATAL_FAILURE(run_alone(words("one", "standard", 8, steps)));
  for (const int count : {2, 4}) {
    const std::string name = std::to_string(count);
    SCOPED_TRACE(name + " processes");
    const ProgramResult first = processes(count, words(name + "-1", "standard", 1, one_step));
    ASSERT_EQ(first.status, 0) << first.text();
    // After one step AdamW's first moment is a tenth of the gradient.
    const double gap = difference(run("one1"), run(name + "-1"), "optimizer.exp_avg.");
    EXPECT_LT(gap, 2e-6);
    EXPECT_GT(gap, 0) << "sums in another order differ somewhere";

    const ProgramResult result = processes(count, words(name, "standard", 8, steps));
    ASSERT_EQ(result.status, 0) << result.text();
    EXPECT_NE(result.err.find(fmt::format("{} processes by mpi, 1 threads each; up to {} samples "
                                          "of a batch each\n",
                                          count, (10 + count - 1) / count)),
              std::string::npos)
        << result.err;
    EXPECT_EQ(result.err.find("test accuracy"), result.err.rfind("test accuracy"))
        << "one process speaks: " << result.err;
    expect_equal_to_rounding(run("one"), run(name));
    const Result record = parse_result(read_json(run(name) / kResultFile));
    EXPECT_EQ(record.training.processes, count);
    EXPECT_EQ(record.training.engine, "mpi");
    EXPECT_EQ(record.test->count, 50);
    const json written = read_json(run(name) / kResultFile)["training"];
    EXPECT_EQ(written["peak_memory_of"], "process 0");
    EXPECT_GT(written["steps_per_second"].get<double>(), 0);
    EXPECT_EQ(read_json(run(name) / kConfigFile)["processes"], count);
  }
  const json alone = read_json(run("one") / kResultFile)["training"];
  EXPECT_FALSE(alone.contains("processes"));
}

// Micro-batches within the shares, an attention that counts its calls (two a step, whoever makes
// them), and no dropout, which a process alone draws anew for each micro-batch.
TEST_F(ParallelTest, MicroBatchesOfSharesAreThoseOfTheBatch) {
  const std::string attention = "performer[redraw_interval=4]";
  const Words sets = {"training.batch=10", "model.dropout=0"};
  ASSERT_NO_FATAL_FAILURE(
      run_alone(words("one", attention, 6, with(sets, {"training.micro_batch=5"}))));
  const ProgramResult result =
      processes(3, words("three", attention, 6, with(sets, {"training.micro_batch=2"})));
  ASSERT_EQ(result.status, 0) << result.text();
  expect_equal_to_rounding(run("one"), run("three"));
}

// Dropouts of weights, where the whole is not by one kernel, and of taps, which all samples share.
TEST_F(ParallelTest, WhatIsDroppedIsThatOfOneProcess) {
  for (const auto& [attention, causal] :
       {std::pair{"sparse[block=8,summary=2,cls=open,dropout=0.3]", "false"},
        {"longformer[window=4,global_tokens=2,dropout=0.3]", "false"},
        {"longconv[dropout=0.3]", "false"},
        {"standard[dropout=0.3]", "true"}}) {
    SCOPED_TRACE(attention);
    const std::string name = std::string(attention).substr(0, 5);
    const Words sets = {"training.batch=10", std::string("model.causal=") + causal};
    ASSERT_NO_FATAL_FAILURE(run_alone(words(name + "1", attention, 6, sets)));
    const ProgramResult result = processes(2, words(name + "2", attention, 6, sets));
    ASSERT_EQ(result.status, 0) << result.text();
    expect_equal_to_rounding(run(name + "1"), run(name + "2"));
  }
}

// Whole batches go to the processes, so that even the last bits are those of one.
TEST_F(ParallelTest, EvaluationIsExactlyThatOfOneProcess) {
  // The batches of the first are of like length.
  for (const std::string attention :
       {"linformer[projected_length=8]", "nystrom[num_landmarks=8]"}) {
    const std::string name = attention.substr(0, 3);
    ASSERT_NO_FATAL_FAILURE(run_alone(words(name, attention, 8)));
    for (const std::string split : {"test", "train"}) {
      const Words evaluate = {"evaluate", run(name).string(), "--split", split,
                              "--json",   "--threads",        "1"};
      const ProgramResult one = run_program(evaluate), three = processes(3, evaluate);
      ASSERT_EQ(three.status, 0) << three.text();
      EXPECT_EQ(three.out, one.out);
      EXPECT_EQ(json::parse(one.out)["count"], split == "test" ? 50 : 192);
    }
  }
}

// ---- Stops and kills

// The lines of lra's own: mpirun adds a paragraph where a process ends with an error.
Words own_lines(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("lra: ")) lines.push_back(line);
  }
  return lines;
}

// The process of that rank under `mpirun`, or 0.
pid_t find_rank(pid_t mpirun, int rank) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stat(entry.path() / "stat"), environment(entry.path() / "environ");
    std::string pid, program, state, parent;
    stat >> pid >> program >> state >> parent;
    if (parent != std::to_string(mpirun)) continue;
    const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
    for (std::string word; std::getline(environment, word, '\0');) {
      if (word == wanted) return std::stoi(name);
    }
  }
  return 0;
}

std::string checkpoint_bytes(const fs::path& run) {
  std::string bytes;
  for (const auto& [name, tensor] : read_tensors(run / kLastCheckpoint).tensors) {
    const auto whole = tensor.contiguous();
    bytes += name + ":" + std::string(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
  }
  return bytes;
}

// Only whole files, under the names of the design.
void expect_nothing_half_written(const fs::path& run) {
  const Words whole = {"lock",          kConfigFile,     kMetricsFile,
                       kLastCheckpoint, kBestCheckpoint, kNextBestCheckpoint};
  for (const auto& entry : fs::directory_iterator(run))
    EXPECT_EQ(std::ranges::count(whole, entry.path().filename().string()), 1) << entry.path();
}

// Waits until the run in progress has evaluated once more.
void wait_for_evaluation(const fs::path& run, const Program& program) {
  const auto written = [&] {
    std::error_code missing;  // the time is then the earliest there is
    return fs::last_write_time(run / kLastCheckpoint, missing);
  };
  const auto before = written();
  while (written() == before && !program.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Half a minute of both processors: mpirun passes signals on slowly.
using SlowParallelTest = ParallelTest;

TEST_F(SlowParallelTest, StoppedAndKilledItGoesOnToTheSameBits) {
  constexpr int64_t kSteps = 240;
  const Words cut = words("cut", "standard", kSteps);
  const ProgramResult begun = processes(2, words("whole", "standard", kSteps));
  ASSERT_EQ(begun.status, 0) << begun.text();
  EXPECT_EQ(begun.err.find("goes on with"), std::string::npos) << begun.err;
  const auto cut_short = [&](const auto& blow) {
    Program program(mpirun_words(as_processes(2, cut)), mpirun_);
    wait_for_evaluation(run("cut"), program);
    blow(program);
    const auto begin = std::chrono::steady_clock::now();
    const ProgramResult result = program.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "no hang";
    EXPECT_NE(result.status, 0);
    EXPECT_FALSE(fs::exists(run("cut") / kResultFile)) << "it was cut before its end";
    expect_nothing_half_written(run("cut"));
    return result;
  };

  // One that is asked to stop stops all, with a checkpoint.
  const ProgramResult stop = cut_short([](const Program& program) {
    const pid_t second = find_rank(program.pid(), 1);
    ASSERT_NE(second, 0);
    kill(second, SIGTERM);
  });
  const Words said = own_lines(stop.err);
  ASSERT_EQ(said.size(), 1U) << stop.err;
  EXPECT_EQ(stop.status, 128 + SIGTERM) << "of all processes";
  EXPECT_TRUE(said[0].starts_with("lra: stopped at step ")) << said[0];
  EXPECT_TRUE(said[0].ends_with(fmt::format(" of {}; continue with --resume", kSteps))) << said[0];
  fs::copy(run("cut"), run("others"), fs::copy_options::recursive);

  const ProgramResult killed = cut_short([](const Program& program) {
    const pid_t second = find_rank(program.pid(), 1);
    ASSERT_NE(second, 0);
    kill(second, SIGKILL);
  });
  EXPECT_NE(killed.err.find("signal 9"), std::string::npos) << killed.err;

  // mpirun is a while at passing this one on, behind a SIGCONT: the run must not end before it.
  cut_short([](const Program& program) {
    for (const int rank : {0, 1}) {
      const pid_t process = find_rank(program.pid(), rank);
      ASSERT_NE(process, 0);
      kill(process, SIGSTOP);
    }
    program.send(SIGINT);
  });

  const ProgramResult end = processes(2, cut);
  ASSERT_EQ(end.status, 0) << end.text();
  EXPECT_NE(end.err.find("resuming "), std::string::npos);
  EXPECT_EQ(checkpoint_bytes(run("cut")), checkpoint_bytes(run("whole")));
  suite::expect_same_run(run("cut"), run("whole"));

  // Another number of processes goes on with the same run, to rounding.
  const ProgramResult others = processes(3, words("others", "standard", kSteps));
  ASSERT_EQ(others.status, 0) << others.text();
  EXPECT_NE(others.err.find("had 2 processes and goes on with 3: not to the same bits"),
            std::string::npos)
      << others.err;
  const auto log = read_lines(run("others") / kMetricsFile),
             whole = read_lines(run("whole") / kMetricsFile);
  ASSERT_EQ(log.size(), whole.size());
  for (size_t i = 0; i < log.size(); ++i)
    EXPECT_NEAR(log[i]["loss"].get<double>(), whole[i]["loss"].get<double>(), 1e-3) << log[i];
}

// Sums depend on the threads: a run that goes on has as many as it had.
TEST_F(ParallelTest, AResumedRunHasItsThreads) {
  Words begun = words("a", "standard", 6);
  *(std::ranges::find(begun, "--threads") + 1) = "2";
  ASSERT_EQ(processes(2, begun).status, 0);
  fs::remove(run("a") / kResultFile);
  Words resumed = begun;
  resumed.erase(std::ranges::find(resumed, "--threads"),
                std::ranges::find(resumed, "--threads") + 2);
  const ProgramResult result = processes(2, resumed);
  ASSERT_EQ(result.status, 0) << result.text();
  EXPECT_NE(result.err.find("2 processes by mpi, 2 threads each"), std::string::npos) << result.err;
  EXPECT_EQ(read_json(run("a") / kConfigFile)["threads"], 2);
  const std::string said = "had 2 threads and goes on with 1: not to the same bits";
  fs::remove(run("a") / kResultFile);
  const std::string other = processes(2, words("a", "standard", 6)).err;
  const size_t at = other.find(said);
  ASSERT_NE(at, std::string::npos) << other;
  EXPECT_EQ(other.find(said, at + 1), std::string::npos) << "once";
}

// ---- Refusals

TEST_F(ParallelTest, RefusesWithOneLine) {
  const struct {
    Words words;
    int status;
    std::string message;
  } cases[] = {
      {words("r", "standard", 8, {"training.batch=2"}), 2,
       "lra: training.batch (2) is less than the 3 processes, and each needs a sample of every "
       "batch; start at most 2"},
      {words("r", "nystrom[num_landmarks=8,init=global]", 8), 2,
       "lra: attention nystrom with init=global computes with the whole batch: train with one "
       "process, not 3"},
      {words("r", "performer[redraw=forward]", 8), 2,
       "lra: attention performer with redraw=forward draws anew in every pass: train with one "
       "process, not 3"},
      {words("r", "standrd", 8), 2, "lra: unknown attention 'standrd'; did you mean 'standard'?"},
      {with(words("r", "standard", 8), {"--sead", "1"}), 2,
       "lra: unknown option '--sead' in lra train; did you mean '--seed'?"},
      {with(words("r", "standard", 8), {"--device", "cuda:1"}), 2,
       "lra: --device cuda:1 names one GPU for 3 processes; say --device cuda, and each takes the "
       "GPU of its number on its host"},
  };
  for (const auto& c : cases) {
    const ProgramResult result = processes(3, c.words);
    EXPECT_EQ(result.status, c.status) << result.text();
    const Words lines = own_lines(result.err);
    ASSERT_EQ(lines.size(), 1U) << result.err;
    EXPECT_TRUE(lines[0].starts_with(c.message)) << lines[0];
    EXPECT_FALSE(fs::exists(run("r") / kConfigFile));
  }
}

// Each counts its own passes.
TEST_F(ParallelTest, WhatDrawsInEveryPassIsEvaluatedByOneProcess) {
  ASSERT_EQ(run_program(words("r", "performer[redraw=forward]", 8)).status, 0);
  const ProgramResult result = processes(2, {"evaluate", run("r").string(), "--threads", "1"});
  EXPECT_EQ(result.status, 2) << result.text();
  EXPECT_NE(result.err.find("draws anew in every pass: evaluate with one process, not 2"),
            std::string::npos)
      << result.err;
}

TEST_F(ParallelTest, ProcessesThatDifferEndTogether) {
  const auto both = [&](const Words& more) {
    const Words first = with(as_processes(1, words("r", "standard", 8)), {":"}),
                second = as_processes(1, with(words("r", "standard", 8), more));
    return Program(mpirun_words(with(first, second)), mpirun_).wait();
  };
  const ProgramResult other_seed = both({"--seed", "1"});
  EXPECT_EQ(other_seed.status, 1) << other_seed.text();
  Words lines = own_lines(other_seed.err);
  ASSERT_EQ(lines.size(), 1U) << other_seed.err;
  EXPECT_TRUE(lines[0].starts_with("lra: the run at step 0 is not the same in processes 0 and 1"))
      << lines[0];

  // Memory that runs out in one is the status of all, and in the record.
  const ProgramResult less_memory = both({"--memory-limit", "1MiB"});
  EXPECT_EQ(less_memory.status, 1) << less_memory.text();
  lines = own_lines(less_memory.err);
  ASSERT_EQ(lines.size(), 1U) << less_memory.err;
  EXPECT_NE(lines[0].find("ended as oom"), std::string::npos) << lines[0];
  const Result record = parse_result(read_json(run("r") / kResultFile));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_NE(record.reason.find("process 1 of 2"), std::string::npos) << record.reason;
}

}  // namespace
}  // namespace lra
