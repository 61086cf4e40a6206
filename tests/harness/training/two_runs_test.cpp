// Runs with pretraining of their own: two in one command.
#include "harness/training/pretraining.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "results/store/store.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// The two runs of one command.
class TwoRunsTest : public TrainTest {
 protected:
  std::vector<std::string> two(const std::string& name) const {
    std::vector<std::string> all = words(name, "standard", /*steps=*/200);
    for (const char* set : {"training.evaluate_every=20", "pretraining.training.steps=160",
                            "pretraining.training.batch=4", "pretraining.optimizer.lr=0.002"})
      all.insert(all.end(), {"--set", set});
    return all;
  }
  // All that two such runs have in common but clocks and places.
  json outcome(const std::string& name) const {
    json all = comparable(run(name));
    json& origin = all["result"]["pretrained"];
    for (const char* own : {"path", "seconds", "total_seconds"}) origin.erase(own);
    return all;
  }
  void expect_same(const std::string& name) const {
    EXPECT_EQ(outcome(name), outcome("whole"));
    for (const fs::path& checkpoint : {fs::path(kLastCheckpoint), fs::path(kBestCheckpoint),
                                       fs::path(kPretrainingFolder) / kLastCheckpoint,
                                       fs::path(kPretrainingFolder) / kBestCheckpoint}) {
      EXPECT_EQ(tensor_bytes(run(name) / checkpoint), tensor_bytes(run("whole") / checkpoint))
          << checkpoint;
    }
  }
};

TEST_F(TwoRunsTest, KilledInEitherTheyEndTheSame) {
  ASSERT_EQ(run_program(two("whole")).status, 0);
  const json first = read_json(run("whole") / kPretrainingFolder / kResultFile),
             second = read_json(run("whole") / kResultFile);
  EXPECT_EQ(first.at("metric"), "masked_token_accuracy");
  EXPECT_EQ(first.at("steps"), 160);
  EXPECT_FALSE(second.contains("metric"));
  EXPECT_EQ(second.at("pretrained").at("steps"), 160);
  EXPECT_EQ(second.at("pretrained").at("samples"), 640);
  EXPECT_EQ(second.at("pretrained").at("total_steps"), 360);
  EXPECT_EQ(second.at("pretrained").at("path"), (run("whole") / kPretrainingFolder).string());

  using std::chrono_literals::operator""ms;
  EXPECT_TRUE(kill_in_training(two("cut"), {run("cut") / kPretrainingFolder}, 20ms));
  EXPECT_FALSE(fs::exists(run("cut") / kConfigFile)) << "not before the first has ended";
  EXPECT_TRUE(kill_in_training(two("cut"), {run("cut")}, 20ms));
  ASSERT_EQ(run_program(two("cut")).status, 0);
  expect_same("cut");
  // What is finished stays.
  const std::string before = read_file(run("cut") / kResultFile);
  ASSERT_EQ(run_program(two("cut")).status, 0);
  EXPECT_EQ(read_file(run("cut") / kResultFile), before);
}

TEST_F(TwoRunsTest, SayHowLongBothAreAndWhatOneOfThemAloneHas) {
  const fs::path own = scratch_.path() / "own.json";
  write_file(own, json{{"schema", "lra.protocol/1"},
                       {"extends", "lra-strict"},
                       {"name", "own"},
                       {"settings", {{"pretraining", {{"training", {{"steps", 7}}}}}}}}
                      .dump());
  std::vector<std::string> all = words("said", "standard", /*steps=*/6);
  all.insert(all.end(), {"--protocol", own.string()});
  const ProgramResult said = run_program(all);
  EXPECT_NE(said.err.find("pretraining first: 7 steps (masked), then the run's 6\n"),
            std::string::npos)
      << said.err;
  const std::string line =
      "training.steps is of the run alone; of its pretraining the protocol has "
      "pretraining.training.steps=7\n";
  EXPECT_NE(said.err.find(line), std::string::npos) << said.err;
  EXPECT_EQ(said.err.find("training.batch is of the run alone"), std::string::npos) << said.err;
  // Given by both, there is nothing to say.
  EXPECT_EQ(run_program(two("both")).err.find("of the run alone"), std::string::npos);
}

TEST_F(TwoRunsTest, AFolderThatHoldsARunIsLeftAlone) {
  ASSERT_EQ(run_program(words("plain", "standard")).status, 0);
  const std::string before = read_file(run("plain") / kResultFile);
  std::vector<std::string> anew = two("plain");
  std::erase(anew, "--resume");
  const ProgramResult refused = run_program(anew);
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("holds a run already"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(run("plain") / kPretrainingFolder));
  EXPECT_EQ(read_file(run("plain") / kResultFile), before);
  const ProgramResult another = run_program(two("plain"));
  EXPECT_EQ(another.status, 1);
  EXPECT_NE(another.err.find("did not start from"), std::string::npos) << another.err;
  EXPECT_FALSE(fs::exists(run("plain") / kPretrainingFolder));
}

TEST_F(TwoRunsTest, ThatDoNotFitAreRefusedBeforeTheFirst) {
  for (const auto& [set, what] : {std::pair{"pretraining.model.width=32", "its tensor"},
                                  {"pretraining.model.positions=none", "model.positions"}}) {
    std::vector<std::string> all = two("unfit");
    all.insert(all.end(), {"--set", set});
    const ProgramResult refused = run_program(all);
    EXPECT_EQ(refused.status, 1) << set;
    EXPECT_NE(refused.err.find(what), std::string::npos) << refused.err;
    EXPECT_FALSE(fs::exists(run("unfit") / kPretrainingFolder));
  }
}

// A first run that diverges is a failure of the configuration that was asked for.
TEST_F(TwoRunsTest, AFailureOfTheFirstIsOfTheRun) {
  std::vector<std::string> all = two("lost");
  all.insert(all.end(), {"--set", "pretraining.optimizer.lr=1e30"});
  run_program(all);
  const Result result = read_result(run("lost") / kResultFile);
  EXPECT_EQ(result.status, Status::diverged);
  EXPECT_TRUE(result.reason.starts_with("pretraining: ")) << result.reason;
  EXPECT_EQ(result.config.at("training").at("objective"), "classify");
  EXPECT_TRUE(result.metric.empty());
  EXPECT_FALSE(result.dev.has_value());
}

// Killed in the next first run, it is none that diverged.
TEST_F(TwoRunsTest, HowTheFirstEndedBeforeGoesWhereItGoesOn) {
  std::vector<std::string> all = two("lost");
  all.insert(all.end(), {"--set", "pretraining.optimizer.lr=1e30"});
  run_program(all);
  ASSERT_TRUE(fs::exists(run("lost") / kResultFile));
  write_file(run("lost") / kPretrainingFolder / kLastCheckpoint, "cut");
  EXPECT_EQ(run_program(all).status, 1);
  EXPECT_FALSE(fs::exists(run("lost") / kResultFile));
}

TEST_F(TwoRunsTest, AreOneRecordToTables) {
  ASSERT_EQ(run_program(two("both")).status, 0);
  const Records found = find_records({run("both")});
  ASSERT_EQ(found.results.size(), 1U);
  EXPECT_EQ(found.results.front().path, (run("both") / kResultFile).string());
  EXPECT_EQ(find_records({run("both") / kPretrainingFolder}).results.size(), 1U);
}

TEST_F(TwoRunsTest, OverwritingRemovesTheRunBeforeToo) {
  const fs::path own = run("a"), before = own / kPretrainingFolder;
  const auto with = [&](const char* option, bool pretrained) {
    std::vector<std::string> all = words("a", "standard");
    *std::ranges::find(all, "--resume") = option;
    if (pretrained) all.insert(all.end(), {"--set", "pretraining.optimizer.lr=0.002"});
    return all;
  };
  const auto is_pretrained = [&] { return read_json(own / kResultFile).contains("pretrained"); };
  ASSERT_EQ(run_program(with("--resume", true)).status, 0);
  ASSERT_TRUE(is_pretrained());
  ASSERT_EQ(run_program(with("--overwrite", false)).status, 0);
  EXPECT_FALSE(fs::exists(before));
  EXPECT_FALSE(is_pretrained());
  // Of a run with pretraining the new one stands, and what is no run's.
  fs::create_directories(before);
  write_file(before / "notes.txt", "mine");
  ASSERT_EQ(run_program(with("--overwrite", true)).status, 0);
  EXPECT_TRUE(fs::exists(before / kResultFile));
  EXPECT_TRUE(is_pretrained());
  // One that never came to its second run is overwritten too.
  for (const char* name : {kConfigFile, kResultFile, kLastCheckpoint, kBestCheckpoint})
    fs::remove(own / name);
  ASSERT_EQ(run_program(with("--overwrite", false)).status, 0);
  EXPECT_FALSE(fs::exists(before / kResultFile));
  EXPECT_FALSE(fs::exists(before / kLastCheckpoint));
  EXPECT_EQ(read_file(before / "notes.txt"), "mine");
}

TEST_F(TwoRunsTest, WhatOverwritingCannotRemoveKeepsTheRun) {
  std::vector<std::string> over = words("a", "standard");
  ASSERT_EQ(run_program(over).status, 0);
  *std::ranges::find(over, "--resume") = "--overwrite";
  const std::string result = read_file(run("a") / kResultFile);
  fs::create_directories(run("a") / kPretrainingFolder);
  write_file(run("a") / kPretrainingFolder / kConfigFile, "{}");
  const ProgramResult refused = run_program(over);
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("is not the configuration of a run"), std::string::npos)
      << refused.err;
  EXPECT_EQ(read_file(run("a") / kResultFile), result);
}

TEST_F(TwoRunsTest, TheShortFormsOfTheOptionsAreTheSettings) {
  std::vector<std::string> first = words("first", "standard");
  first.insert(first.end(), {"--objective", "masked"});
  const ProgramResult pretrained = run_program(first);
  ASSERT_EQ(pretrained.status, 0) << pretrained.err;
  EXPECT_NE(pretrained.text().find("dev masked token accuracy"), std::string::npos)
      << pretrained.text();
  std::vector<std::string> second = words("second", "standard");
  second.insert(second.end(), {"--init-from", run("first").string()});
  const ProgramResult tuned = run_program(second);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_NE(tuned.text().find("starting from " + run("first").string()), std::string::npos)
      << tuned.text();
  const ProgramResult evaluated =
      run_program({"evaluate", run("first").string(), "--threads", "1"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_TRUE(evaluated.out.starts_with("test masked token accuracy")) << evaluated.out;
  std::vector<std::string> wrong = words("wrong", "standard");
  wrong.insert(wrong.end(), {"--objective", "mask"});
  EXPECT_EQ(run_program(wrong).status, 2);
}

}  // namespace
}  // namespace lra
