// What a suite refuses leaves nothing that its corrected command would stumble over, and is said of
// the file that it stands in.
#include "harness/suite/suite_file.h"
#include "harness/suite/suite_folder.h"
#include "tests/harness/suite/tasks_fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

class SuiteCorrectedTest : public SuiteTasksTest {
 protected:
  // Sets what stands at a pointer of the budget's file.
  void set_in_budget(const std::string& pointer, const json& value) const {
    json budget = read_json(budget_);
    budget[json::json_pointer(pointer)] = value;
    write_json(budget_, budget);
  }
  std::string of_budget(const std::string& rest) const {
    return "budget file " + budget_.string() + ": " + rest;
  }
  // An error of this status with that message, and no folder.
  void expect_no_suite(const std::vector<std::string>& words, int status,
                       const std::string& message) const {
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos)
        << "expected: " << message << "\ngot: " << result.err;
    EXPECT_FALSE(fs::exists(out_)) << "nothing half-written: " << message;
  }
};

TEST_F(SuiteCorrectedTest, AfterDataThatItsCellsCannotRead) {
  expect_no_suite(words({"--set", "evaluation.batch=64", "--set", "evaluation.drop_last=true"}), 1,
                  "the dev split has 8 samples, fewer than 64, an evaluation batch");
  set_in_budget("/tasks/pathfinder/dev", 16);
  const ProgramResult result = run_program(words({}));
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(SuiteCorrectedTest, GivenDataAreLookedThroughBeforeAnythingIsWritten) {
  const fs::path data = scratch_.path() / "data";
  task("pathfinder").prepare({.out = data, .seed = 3, .train = 24, .dev = 8, .test = 10});
  expect_no_suite(words({"--data", data.string(), "--set", "evaluation.batch=64", "--set",
                         "evaluation.drop_last=true"}),
                  1, "the dev split has 8 samples");
}

TEST_F(SuiteCorrectedTest, AfterABudgetThatAsksForOtherDataThanThereAre) {
  set_in_budget("/tasks/pathfinder/resolution", 33);
  expect_no_suite(words({}), 2,
                  of_budget("tasks.pathfinder.resolution should be 32, 64, 128 or 256, not 33"));
  set_in_budget("/tasks/pathfinder/resolution", 32);
  EXPECT_EQ(run_program(words({"--only", "0"})).status, 0);
}

TEST_F(SuiteCorrectedTest, ASeedOfDataThatDrawNothingIsRefused) {
  set_in_budget("/tasks/image/data_seed", 3);
  expect_no_suite(words({"--tasks", "image", "--source", "image=" + images_.string()}), 2,
                  of_budget("tasks.image: the task image draws nothing of this --source: leave "
                            "data_seed out"));
}

TEST_F(SuiteCorrectedTest, FaultsOfABudgetNameItsFileAndKey) {
  const auto expect_fault = [&](const std::string& pointer, const json& value,
                                const std::string& message) {
    const json before = read_json(budget_);
    set_in_budget(pointer, value);
    EXPECT_NE(refused({}).find(message), std::string::npos)
        << "expected: " << message << "\ngot: " << refused({});
    write_json(budget_, before);
  };
  expect_fault("/seeds", "0,x", of_budget("seeds should be a comma list of integers"));
  expect_fault("/attentions", "standrad", of_budget("attentions: unknown attention 'standrad'"));
  expect_fault("/attentions", "nystrom[num_landmarks=0]", of_budget("attentions: "));
  expect_fault("/run", "pathfindr",
               "unknown task 'pathfindr' in " + of_budget("run; did you mean"));
  expect_fault("/profile/preset", "tabel1", of_budget("profile.preset: unknown preset 'tabel1'"));
  expect_fault("/tasks/pathfinder/set", {{"training.step", 2}},
               "unknown key 'step' in " + of_budget("tasks.pathfinder.set.training"));
  expect_fault("/tasks/pathfinder/set", {{"training.steps", "many"}},
               of_budget("tasks.pathfinder.set.training: steps should be an integer"));
  expect_fault("/tasks/pathfinder/set", {{"training.steps", 2}, {"schedule.warmup", 7}},
               of_budget("tasks.pathfinder.set: schedule.warmup (7) should be less than"));
  // What the user sets is none of the budget's.
  EXPECT_EQ(refused({"--set", "training.step=2"}).find("budget file"), std::string::npos);
  EXPECT_EQ(refused({"--set", "schedule.warmup=7"}).find("budget file"), std::string::npos);
}

TEST_F(SuiteCorrectedTest, FaultsOfAProtocolNameItsFile) {
  const std::string path = (scratch_.path() / "mine.json").string();
  const auto fault = [&](const json& more) {
    json protocol = {{"schema", "lra.protocol/1"}, {"name", "mine"}, {"extends", "lra-strict"}};
    protocol.update(more);
    write_json(path, protocol);
    const std::string said = refused({"--protocol", path, "--set", "training.batch=4"});
    EXPECT_NE(said.find("protocol file " + path), std::string::npos) << said;
    return said;
  };
  EXPECT_NE(fault({{"attentions", {{"nystrom", {{"num_landmarks", 0}}}}}}).find(": attentions: "),
            std::string::npos);
  EXPECT_NE(fault({{"attention_settings", {{"nystrm", json::object()}}}})
                .find(": attention_settings: unknown attention 'nystrm'"),
            std::string::npos);
  EXPECT_NE(fault({{"variants", {{"local", "locl"}}}}).find(": variants: unknown attention 'locl'"),
            std::string::npos);
  EXPECT_NE(fault({{"tasks", {{"pathfindr", json::object()}}}})
                .find(": tasks.pathfindr: unknown task 'pathfindr'"),
            std::string::npos);
  EXPECT_NE(fault({{"settings", {{"schedule", {{"beta1_low", 0.9}, {"beta1_high", 0.5}}}}}})
                .find(": task pathfinder: schedule.beta1_low should be at most"),
            std::string::npos);
}

TEST_F(SuiteCorrectedTest, AfterWhatCannotBeSubmitted) {
  const auto submission = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words(more);
    all.insert(all.begin() + 1, {"submit", "--slurm"});
    return all;
  };
  expect_refusal(submission({"--only", "1"}), 2, "--only should be a comma list of cells from 0");
  EXPECT_FALSE(fs::exists(out_)) << "found before anything is written";
  // A place without Slurm's programs.
  const fs::path bin = scratch_.path() / "bin";
  fs::create_directories(bin);
  write_file(bin / "sbatch", "#!/bin/sh\nexit 127\n");
  fs::permissions(bin / "sbatch", fs::perms::owner_all);
  const ScopedVariable path("PATH", (bin.string() + ":/bin:/usr/bin").c_str());
  expect_no_suite(submission({}), 1, "there is no sbatch here");
}

// Beside another runner, or once a cell has begun, it is no more this call's alone.
TEST_F(SuiteCorrectedTest, ASuiteThatHasBegunIsNotWithdrawn) {
  OpenedSuite opened{.suite = {}, .is_new = true, .made_folder = true};
  opened.suite.request.out = out_;
  fs::create_directories(out_ / "runs");
  write_file(out_ / kSuiteFile, "{}");
  withdraw_suite(opened);
  EXPECT_TRUE(fs::exists(out_ / kSuiteFile));
  fs::remove(out_ / "runs");
  for (const char* mine : {"notes.txt", "slurm/notes.txt"}) {
    fs::create_directories((out_ / mine).parent_path());
    write_file(out_ / mine, "mine");
  }
  for (const char* ours : {"cells-0.sh", "report.sh", "jobs.json"})
    write_file(out_ / "slurm" / ours, "");
  withdraw_suite(opened);
  EXPECT_FALSE(fs::exists(out_ / kSuiteFile));
  EXPECT_EQ(read_file(out_ / "notes.txt"), "mine");
  EXPECT_EQ(read_file(out_ / "slurm/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(out_ / "slurm/cells-0.sh") || fs::exists(out_ / "slurm/jobs.json") ||
               fs::exists(out_ / "slurm/report.sh"));
}

// Its rights and its owner may be others' to use.
TEST_F(SuiteCorrectedTest, AFolderThatWasThereStays) {
  OpenedSuite opened{.suite = {}, .is_new = true, .made_folder = false};
  opened.suite.request.out = out_;
  fs::create_directories(out_);
  write_file(out_ / kSuiteFile, "{}");
  withdraw_suite(opened);
  EXPECT_TRUE(fs::is_directory(out_));
  EXPECT_TRUE(fs::is_empty(out_));
}

TEST_F(SuiteCorrectedTest, AnotherSuiteIsToldByAllThatDiffers) {
  ASSERT_EQ(run_program(words({"--only", "0"})).status, 0);
  const auto other = [&](const std::vector<std::string>& more) {
    return run_program(words(more)).err;
  };
  EXPECT_NE(other({"--seeds", "0,1", "--dtype", "bfloat16", "--set", "model.layers=2"})
                .find("holds another suite (--seeds 0 there, 0,1 here; --set none there, "
                      "model.layers=2 here; --dtype float32 there, bfloat16 here)"),
            std::string::npos)
      << other({"--seeds", "0,1"});
  set_in_budget("/tasks/pathfinder/set/training.steps", 4);
  EXPECT_NE(other({}).find("(budget.tasks.pathfinder.set.training.steps 2 there, 4 here)"),
            std::string::npos)
      << other({});
  set_in_budget("/name", "other");
  EXPECT_NE(other({}).find("(--budget tiny there, other here)"), std::string::npos) << other({});
}

}  // namespace
}  // namespace lra::suite
