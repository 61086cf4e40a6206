// Runners of a suite: several cells at a time, several runners, tries and time limits.
#include "harness/suite/runner.h"

#include <cstdlib>

#include "harness/host/heartbeat.h"
#include "harness/suite/job.h"
#include "harness/suite/status.h"
#include "harness/suite/suite_file.h"
#include "harness/training/checkpoint.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

constexpr const char* kThree = "standard,nystrom[num_landmarks=8],linear";

class SuiteRunTest : public SuiteTest {
 protected:
  void expect_same_suite(const std::string& a, const std::string& b) const {
    for (const char* attention : {"standard", "nystrom[num_landmarks=8]", "linear"})
      expect_same_run(run(a, attention), run(b, attention));
  }
};

TEST_F(SuiteRunTest, SeveralAtATimeOrSeveralRunnersEndAsOne) {
  // Without profile and report, which take most of the time.
  ASSERT_EQ(run_program(with(words("one", kThree), {"--only", "0-2"})).status, 0);
  const ProgramResult two =
      run_program(with(with_threads(words("two", kThree), 2), {"--jobs", "2", "--only", "0,1-2"}));
  ASSERT_EQ(two.status, 0) << two.err;
  expect_same_suite("one", "two");
  EXPECT_EQ(read_json(out("two") / kSuiteFile)["threads"], 1);
  for (const char* attention : {"standard", "nystrom[num_landmarks=8]", "linear"}) {
    const auto tries = read_lines(run("two", attention) / kTriesFile);
    ASSERT_EQ(tries.size(), 1u);
    EXPECT_EQ(tries[0]["ended"], "ok");
    EXPECT_EQ(tries[0]["threads"], 1);
    EXPECT_EQ(tries[0]["host"], host::host_name());
    EXPECT_TRUE(contains(read_file(run("two", attention) / kLogFile), "test accuracy"));
  }

  Program first(words("both", kThree)), second(words("both", kThree));
  const ProgramResult a = first.wait(), b = second.wait();
  ASSERT_EQ(a.status, 0) << a.err;
  ASSERT_EQ(b.status, 0) << b.err;
  EXPECT_EQ(a.out, b.out) << "each writes the same report";
  expect_same_suite("one", "both");
  for (const char* attention : {"standard", "nystrom[num_landmarks=8]", "linear"})
    EXPECT_EQ(read_lines(run("both", attention) / kTriesFile).size(), 1u) << "nothing runs twice";
}

TEST_F(SuiteRunTest, TheFolderAloneSaysWhatTheSuiteIs) {
  const ProgramResult only = run_program(with(words("s"), {"--only", "1"}));
  ASSERT_EQ(only.status, 0) << only.err;
  EXPECT_TRUE(fs::exists(run("s", "nystrom[num_landmarks=8]") / kResultFile));
  EXPECT_FALSE(fs::exists(run("s", "standard")));
  EXPECT_FALSE(fs::exists(out("s") / "report"));
  EXPECT_FALSE(fs::exists(out("s") / kProfileFile));

  const ProgramResult rest = run_program({"suite", "--out", out("s").string(), "--resume"});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_TRUE(contains(rest.err, "1 of 2 cells have ended already")) << rest.err;
  EXPECT_EQ(final_status(run("s", "standard")), Status::ok);
  EXPECT_TRUE(fs::exists(out("s") / "report" / "report.md"));
  EXPECT_EQ(read_lines(run("s", "standard") / kTriesFile)[0]["threads"], 1)
      << "as the suite began, whatever this runner has";

  const ProgramResult other =
      run_program({"suite", "--out", out("s").string(), "--resume", "--threads", "2"});
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(contains(other.err, "have 1 thread each, as their results depend on it, and not 2"))
      << other.err;
  const ProgramResult beyond =
      run_program({"suite", "--out", out("s").string(), "--resume", "--only", "2"});
  EXPECT_EQ(beyond.status, 2);
  EXPECT_TRUE(
      contains(beyond.err, "--only should be a comma list of cells from 0 to 1, as 0,4-7, not '2'"))
      << beyond.err;
}

// A protocol's file may be edited while the suite runs, or stand elsewhere for the next runner.
TEST_F(SuiteRunTest, CellsAreOfTheProtocolThatTheSuiteBeganWith) {
  const fs::path mine = scratch_.path() / "mine.json";
  write_json(mine, {{"schema", "lra.protocol/1"}, {"name", "mine"}, {"extends", "lra-strict"}});
  const auto w = with(words("s"), {"--only", "0", "--protocol", fs::relative(mine).string()});
  const ProgramResult first = run_program(w);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(read_json(out("s") / kSuiteFile)["protocol"], fs::absolute(mine).string());

  json record = read_json(run("s", "standard") / kResultFile);
  TrainJob job{.task = "listops",
               .attention = "standard",
               .protocol = mine.string(),
               .dtype = "float32",
               .run = (scratch_.path() / "never").string(),
               .device = "cpu",
               .configuration = config_identity(record["config"])};
  for (const std::string& set : tiny_settings(12)) {
    if (!set.starts_with("optimizer.lr=")) job.sets.push_back(set);
  }
  const std::string error = error_text([&] { run_train_job(write_fields(job).dump()); });
  EXPECT_TRUE(contains(error, "is no more what it was when the suite was planned (optimizer.lr: "))
      << error;

  record["config"]["optimizer"]["lr"] = 0.05;
  write_json(run("s", "standard") / kResultFile, record);
  const ProgramResult again = run_program(w);
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(
      contains(again.err, "is of another configuration than the cell (optimizer.lr: 0.05 -> "))
      << again.err;
}

// Of the same name and sizes, with another seed: cells of both would stand in one suite.
TEST_F(SuiteRunTest, CellsAreOfTheDataThatTheSuiteBeganWith) {
  const auto prepare = [&](const char* seed) {
    std::filesystem::remove_all(out("data"));
    const ProgramResult made = run_program(
        {"data", "prepare", "listops", "--out", out("data").string(), "--train", "96", "--dev",
         "40", "--test", "50", "--min-length", "10", "--max-length", "60", "--seed", seed});
    EXPECT_EQ(made.status, 0) << made.err;
  };
  const std::vector<std::string> given =
      with(words("s", "standard,linear"), {"--data", out("data").string()});
  prepare("0");
  ASSERT_EQ(run_program(with(given, {"--only", "0"})).status, 0);
  prepare("7");
  const auto refused = [&] {
    const ProgramResult result = run_program(given);
    EXPECT_EQ(result.status, 1) << result.text();
    EXPECT_NE(
        result.err.find("are not those that the cells of " + out("s").string() + " are trained on"),
        std::string::npos)
        << result.err;
  };
  refused();
  std::filesystem::remove(out("s") / "fingerprints.json");  // as before it was written
  refused();
  prepare("0");
  EXPECT_EQ(run_program(given).status, 0);
}

TEST_F(SuiteRunTest, AnotherSuiteIsNamedByTheOptionThatDiffers) {
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0"})).status, 0);
  const ProgramResult other = run_program(with(words("s"), {"--seeds", "0-3"}));
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.err, "holds another suite (--seeds 0 there, 0,1,2,3 here)"))
      << other.err;
  EXPECT_TRUE(
      contains(run_program({"suite", "plan", "--out", out("s").string(), "--only", "0"}).err,
               "lra suite plan lists all cells"));
}

TEST_F(SuiteRunTest, ACellThatOnlyDiesIsTriedSoOftenAndTheOthersGoOn) {
  // Nothing can be logged there, whoever tries.
  fs::create_directories(run("s", "standard") / kMetricsFile);
  const auto w =
      with(with_threads(words("s"), 2), {"--jobs", "2", "--tries", "2", "--only", "0-1"});
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "1 part(s) of the suite did not end as ok")) << result.err;
  EXPECT_EQ(final_status(run("s", "nystrom[num_landmarks=8]")), Status::ok);
  EXPECT_EQ(read_lines(run("s", "standard") / kTriesFile).size(), 2u);
  const json record = read_json(run("s", "standard") / kResultFile);
  EXPECT_EQ(record["status"], "crash");
  EXPECT_TRUE(contains(record["reason"],
                       "2 tries without a new checkpoint; the last: exit status 1: "
                       "lra: cannot read"))
      << record["reason"];

  // What ails it is gone: the next call tries it again.
  remove_tree(run("s", "standard") / kMetricsFile);
  EXPECT_EQ(run_program(w).status, 0);
  EXPECT_EQ(final_status(run("s", "standard")), Status::ok);
}

// What cannot be done for one cell, its runner says, and goes on with the others.
TEST_F(SuiteRunTest, TroubleInTheFolderOfACellIsNoneOfTheOthers) {
  fs::create_directories(run("s", "standard").parent_path());
  write_file(run("s", "standard"), "no folder");
  for (const char* jobs : {"1", "2"}) {
    const ProgramResult result =
        run_program(with(with_threads(words("s"), jobs == std::string("2") ? 2 : 1),
                         {"--jobs", jobs, "--only", "0-1"}));
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(contains(result.err, "lra: [1/2] listops standard seed 0: ")) << result.err;
    EXPECT_TRUE(contains(result.err, "; it is left as it is, and the others go on")) << result.err;
    EXPECT_TRUE(contains(result.err, "1 part(s) of the suite did not end as ok")) << result.err;
    EXPECT_EQ(final_status(run("s", "nystrom[num_landmarks=8]")), Status::ok);
  }
  fs::remove(run("s", "standard"));
  EXPECT_EQ(run_program(with(words("s"), {"--only", "0-1"})).status, 0);
}

// Each would be trained, and measured, twice.
TEST_F(SuiteRunTest, AnAttentionByTwoNamesIsNamedTwice) {
  const ProgramResult refused = run_program(words("s", "linear,linear[feature_map=elu]"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(contains(refused.err,
                       "--attentions names one attention twice, as linear and as "
                       "linear[feature_map=elu]"))
      << refused.err;
  EXPECT_FALSE(fs::exists(out("s")));
  // By what the protocol makes of them.
  const auto said = [&](const std::string& names) {
    return run_program(with(words("t", names),
                            {"--protocol", "nystromformer2021", "--data", out("nowhere").string()}))
        .err;
  };
  EXPECT_TRUE(contains(said("standard,standard[dropout=0.1]"), "names one attention twice"));
  const std::string other = said("standard,standard[dropout=0]");
  EXPECT_FALSE(contains(other, "twice")) << other;
  EXPECT_TRUE(contains(other, "nowhere")) << other;
}

TEST_F(SuiteRunTest, AFolderWithoutASuiteToResumeIsSaid) {
  const ProgramResult begun = run_program(with(words("s"), {"--only", "0"}));
  EXPECT_TRUE(
      contains(begun.err, "no suite in " + out("s").string() + " yet: this is a new one of"))
      << begun.err;
  EXPECT_FALSE(contains(run_program(with(words("s"), {"--only", "0"})).err, "no suite in "));
  const ProgramResult misspelt = run_program({"suite", "--out", out("t").string(), "--resume"});
  EXPECT_EQ(misspelt.status, 2);
  EXPECT_TRUE(
      contains(misspelt.err, out("t").string() + " holds no suite to resume, and for a new one "))
      << misspelt.err;
}

// It may be of another version of the program.
TEST_F(SuiteRunTest, AResultThatIsNoRecordIsKeptAsideAndTheCellRunsAgain) {
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0"})).status, 0);
  const fs::path result = run("s", "standard") / kResultFile,
                 aside = run("s", "standard") / kBadResultFile;
  json later = read_json(result);
  later["schema"] = "lra.result/99";
  write_json(result, later);
  const ProgramResult again = run_program(with(words("s"), {"--only", "0"}));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(contains(again.err, "it is now " + aside.string() + ", and the cell runs again"))
      << again.err;
  EXPECT_EQ(read_json(aside), later);
  EXPECT_EQ(final_status(run("s", "standard")), Status::ok);
}

// What is there and cannot be read may be whole.
TEST_F(SuiteRunTest, AResultThatCannotBeReadIsNotReplaced) {
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0"})).status, 0);
  const fs::path result = run("s", "standard") / kResultFile;
  fs::rename(result, out("kept"));
  fs::create_directory(result);  // as root too, no file to read
  const ProgramResult refused = run_program(with(words("s"), {"--only", "0"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "cannot read " + result.string())) << refused.err;
  EXPECT_TRUE(fs::is_directory(result));
  fs::remove(result);
  fs::rename(out("kept"), result);
  EXPECT_EQ(run_program(with(words("s"), {"--only", "0"})).status, 0);
}

TEST_F(SuiteRunTest, FilesOfASuiteThatAreDamagedAreNamed) {
  ASSERT_EQ(run_program(with(words("s"), {"--only", "0"})).status, 0);
  const std::vector<std::string> by_folder = {"suite",    "--out",  out("s").string(),
                                              "--resume", "--only", "0"};
  const auto refused = [&](const fs::path& file, const std::string& text,
                           const std::string& message) {
    const std::string whole = read_file(file);
    write_file(file, text);
    for (const auto& command : {with(words("s"), {"--only", "0"}), by_folder}) {
      const ProgramResult result = run_program(command);
      EXPECT_EQ(result.status, 1) << result.err;
      EXPECT_TRUE(contains(result.err, file.string())) << result.err;
      EXPECT_TRUE(contains(result.err, message)) << result.err;
      EXPECT_FALSE(contains(result.err, "json.exception")) << result.err;
    }
    write_file(file, whole);
  };
  const fs::path fingerprints = out("s") / "fingerprints.json", suite = out("s") / kSuiteFile;
  refused(fingerprints, R"({"listops": 3})", "listops should be a string, not 3; remove it");
  refused(fingerprints, "", "; remove it, and it is made anew");
  refused(suite, "null", "is not the file of a suite; put back what it was, or remove it and give");
  refused(suite, R"({"schema": "lra.suite/1"})", "; put back what it was, or remove it and give");
  fs::remove(suite);
  const ProgramResult again = run_program(with(words("s"), {"--only", "0"}));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(contains(again.err, "1 of 1 cells have ended already"))
      << "as it was said: " << again.err;
}

// Its process writes to the terminal then, not to a log.
TEST_F(SuiteRunTest, ACellThatRunsAloneLeavesTheReasonItDiedFor) {
  fs::create_directories(run("s", "standard") / kMetricsFile);
  const ProgramResult result =
      run_program(with(words("s", "standard"), {"--tries", "1", "--only", "0"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "lra: cannot read")) << result.err;
  const json record = read_json(run("s", "standard") / kResultFile);
  EXPECT_EQ(record["status"], "crash");
  EXPECT_TRUE(contains(record["reason"], "exit status 1: lra: cannot read")) << record["reason"];
  EXPECT_EQ(read_lines(run("s", "standard") / kTriesFile)[0]["ended"], record["reason"]);
}

// It would throw again.
TEST_F(SuiteRunTest, ACellWhoseModuleThrowsIsNotTriedAgain) {
  const std::string file = LRA_SOURCE_DIR "/tests/fixtures/torchscript-wrong_shape.pt";
  const ProgramResult result =
      run_program(with(words("s", "torchscript:" + file), {"--only", "0"}));
  EXPECT_EQ(result.status, 1);
  std::vector<fs::path> results;
  for (const auto& entry : fs::recursive_directory_iterator(out("s") / "runs")) {
    if (entry.path().filename() == kResultFile) results.push_back(entry.path());
  }
  ASSERT_EQ(results.size(), 1u) << result.err;
  const json record = read_json(results[0]);
  EXPECT_EQ(record["status"], "crash");
  EXPECT_TRUE(contains(record["reason"], "forward should return")) << record["reason"];
  EXPECT_EQ(read_lines(results[0].parent_path() / kTriesFile).size(), 1u);
  const ProgramResult status = run_program({"suite", "status", "--out", out("s").string()});
  EXPECT_TRUE(contains(status.out, "forward should return")) << status.out;
}

TEST_F(SuiteRunTest, WhatAnAttentionRefusesIsAFinding) {
  const auto w =
      with(words("s", "nystrom,standard"), {"--set", "model.positions=rotary", "--only", "0"});
  EXPECT_EQ(run_program(w).status, 1);
  const json record = read_json(run("s", "nystrom") / kResultFile);
  EXPECT_EQ(record["status"], "unsupported");
  EXPECT_TRUE(contains(record["reason"], "attention nystrom takes no rotary positions"))
      << record["reason"];
  EXPECT_EQ(run_program(w).status, 1);
  EXPECT_EQ(read_lines(run("s", "nystrom") / kTriesFile).size(), 1u) << "it is not tried again";
}

TEST_F(SuiteRunTest, ASearchIsNoPlaceForASuite) {
  fs::create_directories(out("s"));
  write_file(out("s") / "tune.json", "{}");
  expect_refusal(words("s", "standard"), 1, "holds a search of lra tune");
  EXPECT_FALSE(fs::exists(out("s") / kSuiteFile));
}

TEST_F(SuiteRunTest, ACellHasItsTime) {
  write_budget(1'000'000);
  const auto w = with(words("s", "standard"), {"--timeout", "5", "--only", "0"});
  const ProgramResult result = run_program(w);
  EXPECT_EQ(result.status, 1);
  const json record = read_json(run("s", "standard") / kResultFile);
  EXPECT_EQ(record["status"], "timeout");
  EXPECT_EQ(record["reason"], "took longer than 5 s");
  EXPECT_GT(record["steps"], 0);
  EXPECT_EQ(record["training"]["threads"], 1);
  EXPECT_GE(record["training"]["seconds"], 5.0);
  const fs::path last = run("s", "standard") / kLastCheckpoint;
  ASSERT_TRUE(fs::exists(last)) << "it was asked to stop first";
  EXPECT_EQ(record["steps"], read_checkpoint(last).at.step) << "also those that no line is of";
  const SuiteStatus status = suite_status(out("s"));
  EXPECT_LT(status.steps_done, status.steps / 2) << "the next call takes it again";
  EXPECT_GE(attempt_seconds(run("s", "standard")), 5);
  // The same limit again: it has had its time. None: it goes on.
  EXPECT_EQ(run_program(w).status, 1);
  EXPECT_EQ(read_lines(run("s", "standard") / kTriesFile).size(), 1u);
  Program on(words("s", "standard"));
  for (int i = 0; i < 3000 && !host::lock_holder(run("s", "standard")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(host::lock_holder(run("s", "standard")));
  on.send(SIGTERM);
  EXPECT_EQ(on.wait().status, 128 + SIGTERM);
}

TEST_F(SuiteRunTest, ABrokenResultIsSaidAndMadeAnew) {
  const auto w = with(words("s", "standard"), {"--only", "0"});
  ASSERT_EQ(run_program(w).status, 0);
  const fs::path result = run("s", "standard") / kResultFile;
  const std::string whole = read_file(result);
  write_file(result, whole.substr(0, whole.size() / 2));
  const ProgramResult again = run_program(w);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(contains(again.err, "is not valid JSON")) << again.err;
  EXPECT_EQ(read_json(result)["test"], json::parse(whole)["test"]);
}

// What a runner of several cells gives each of them.
TEST_F(SuiteRunTest, ARunKeepsToItsMemory) {
  prepare_tiny_listops(out("data"));
  const auto w = tiny_train(out("data"), out("run"), "standard");
  EXPECT_EQ(run_program(with(w, {"--memory-limit", "256KiB"})).status, 1);
  EXPECT_EQ(final_status(out("run")), Status::oom);
  EXPECT_EQ(run_program(with(w, {"--memory-limit", "1GiB"})).status, 0);
  EXPECT_EQ(final_status(out("run")), Status::ok);
  EXPECT_TRUE(contains(run_program(with(w, {"--memory-limit", "much"})).err,
                       "--memory-limit should be a size such as 8GiB or 512MiB, not 'much'"));
}

TEST_F(SuiteRunTest, AnEmptyWordIsNoDefault) {
  std::vector<std::string> without = words("empty");
  const auto out_option = std::ranges::find(without, "--out");
  without.erase(out_option, out_option + 2);
  for (const char* option : {"--data", "--out", "--devices"}) {
    const bool is_out = std::string(option) == "--out";
    const ProgramResult result = run_program(with(is_out ? without : words("empty"), {option, ""}));
    EXPECT_EQ(result.status, 2) << option << " " << result.text();
    EXPECT_NE(result.err.find("names none; leave the option out"), std::string::npos)
        << option << " " << result.err;
  }
}

TEST_F(SuiteRunTest, RefusesWhatCannotBe) {
  const auto refused = [&](const std::vector<std::string>& more) {
    const ProgramResult result = run_program(with(words("r"), more));
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_FALSE(fs::exists(out("r"))) << "nothing half-written";
    return result.err;
  };
  EXPECT_TRUE(contains(refused({"--seeds", "0,0"}), "two cells would share the folder"));
  EXPECT_TRUE(contains(refused({"--devices", "cuda:0,cuda:0"}),
                       "--devices should be a comma list of GPUs, each once"));
  EXPECT_TRUE(contains(refused({"--devices", "cuda:0", "--device", "cuda"}), "give one of them"));
  EXPECT_TRUE(
      contains(refused({"--devices", "cuda:0,cuda:1", "--jobs", "3"}),
               "each of the 2 GPUs has as many cells at a time, so it should be a multiple of 2"));
  EXPECT_TRUE(contains(refused({"--jobs", "0"}), "--jobs"));
}

TEST(SuiteRunners, FillEveryDeviceBeforeOneHasASecondCell) {
  const RunnerOptions options{.devices = {"cuda:0", "cuda:1"}, .jobs = 4};
  const char* expected[] = {"cuda:0", "cuda:1", "cuda:0", "cuda:1"};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(options.device_of(i), expected[i]);
}

TEST(SuiteRunners, KnowHowManyCellsShareAGpu) {
  const RunnerOptions one{.devices = {"cuda:0"}, .jobs = 6},
      two{.devices = {"cuda:0", "cuda:1"}, .jobs = 6}, cpu{.jobs = 6};
  EXPECT_EQ(one.sharing(25), 6);
  EXPECT_EQ(one.sharing(2), 2) << "no more than there are";
  EXPECT_EQ(two.sharing(25), 3);
  EXPECT_EQ(two.sharing(3), 2);
  EXPECT_EQ(cpu.sharing(25), 1) << "they have processors of their own";
  EXPECT_EQ(two.most_sharing(), 3);
  EXPECT_EQ(cpu.most_sharing(), 6) << "they share the memory";
}

// The mark of a runner of another host, whose lock nobody holds; returns its folder.
fs::path leave_mark(const Scratch& scratch) {
  fs::path folder = scratch.path() / "runners";
  fs::create_directories(folder);
  write_file(folder / "elsewhere-77", "");
  write_file(folder / "elsewhere-77.beat", "5");
  return folder;
}

// A mark whose number goes up under a lock that cannot be seen: two hosts without shared locks.
TEST(SuiteRunners, LocksThatDoNotReachFromHostToHostAreFound) {
  const Scratch scratch;
  const fs::path folder = leave_mark(scratch);
  {
    std::jthread other([&](const std::stop_token& stop) {
      for (int i = 6; !stop.stop_requested(); ++i) {
        std::ofstream(folder / "elsewhere-77.beat") << i;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    // Long enough for a beat on a busy machine too.
    EXPECT_TRUE(error_text([&] {
                  host::RunnerHeartbeat mark(scratch.path(), std::chrono::seconds(1));
                }).find("runner elsewhere-77 is at work in") != std::string::npos);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2)
        << "what refuses leaves no mark";
  }
  // A dead one is cleared away, here and elsewhere.
  write_file(folder / (host::host_name() + "-999999999"), "");
  const host::RunnerHeartbeat mark(scratch.path(), std::chrono::milliseconds(20));
  EXPECT_FALSE(fs::exists(folder / "elsewhere-77"));
  EXPECT_FALSE(fs::exists(folder / (host::host_name() + "-999999999")));
  ASSERT_EQ(host::runners(scratch.path()).size(), 1u);
  EXPECT_EQ(host::runners(scratch.path())[0].pid, getpid());
}

TEST(SuiteRunners, ThatStartTogetherClearOneMarkAway) {
  const Scratch scratch;
  const fs::path folder = leave_mark(scratch);
  constexpr std::chrono::milliseconds kBeat(200);
  std::optional<host::RunnerHeartbeat> first;
  std::jthread earlier([&] { first.emplace(scratch.path(), kBeat); });
  std::this_thread::sleep_for(kBeat);
  const host::RunnerHeartbeat second(scratch.path(), kBeat);
  earlier.join();
  EXPECT_FALSE(fs::exists(folder / "elsewhere-77"));
  EXPECT_EQ(host::runners(scratch.path()).size(), 2u);
}

}  // namespace
}  // namespace lra::suite
