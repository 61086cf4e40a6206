// Runs that were killed end as undisturbed ones do, to the same bits.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Ends `name`, which was killed some times, and compares it with the undisturbed "whole".
class KilledTrainTest : public TrainTest {
 protected:
  static constexpr const char* kAttention = "nystrom[num_landmarks=8]";

  void end_and_compare(const std::string& name, int64_t steps) const {
    SCOPED_TRACE(name);
    const ProgramResult end = run_program(words(name, kAttention, steps));
    ASSERT_EQ(end.status, 0) << end.err;
    EXPECT_EQ(comparable(run(name)), comparable(run("whole")));
    for (const char* checkpoint : {kLastCheckpoint, kBestCheckpoint}) {
      EXPECT_EQ(tensor_bytes(run(name) / checkpoint), tensor_bytes(run("whole") / checkpoint))
          << checkpoint;
    }
  }
};

TEST_F(KilledTrainTest, KilledTwiceItStillEndsTheSame) {
  constexpr int64_t kSteps = 300;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed of the delays: " + std::to_string(seed));
  std::mt19937 random(seed);
  ASSERT_EQ(run_program(words("whole", kAttention, kSteps)).status, 0);
  int kills = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::chrono::milliseconds delay(std::uniform_int_distribution<int64_t>(0, 200)(random));
    kills += kill_in_training(words("cut", kAttention, kSteps), {run("cut")}, delay) ? 1 : 0;
  }
  ASSERT_EQ(kills, 2) << "kills that hit the run in progress";
  end_and_compare("cut", kSteps);
}

// Else a run that goes on, or begins, is reported as the attempt before ended.
TEST(RunFolderTest, HowAnAttemptEndedGoesWhereTheNextBegins) {
  const Scratch scratch;
  const fs::path run = scratch.path() / "run";
  const json identity = {{"task", "listops"}};
  const auto begin = [&] {
    RunFolder folder(run, identity, Resume::yes, Access::write);
    folder.begin({{"identity", identity}}, {}, {});
  };
  begin();
  Result oom;
  oom.status = Status::oom;
  write_json(run / kResultFile, make_result(oom));
  write_file(run / kPredictionsFile, "index,label,predicted\n");
  begin();
  EXPECT_FALSE(fs::exists(run / kResultFile));
  EXPECT_FALSE(fs::exists(run / kPredictionsFile));
}

class ChangedProgressTest : public KilledTrainTest {
 protected:
  // Trains to the end, and leaves of it what a run killed after its last checkpoint does, with
  // what `change` makes of the progress in that.
  template <class Change>
  void train_and_change(const std::string& name, const Change& change) {
    ASSERT_EQ(run_program(words(name, kAttention, kFewSteps)).status, 0);
    fs::remove(run(name) / kResultFile);
    change_progress(name, change);
  }
  template <class Change>
  void change_progress(const std::string& name, const Change& change) {
    const fs::path last = run(name) / kLastCheckpoint;
    lra::change_progress(last, last, change);
  }
  static constexpr int64_t kFewSteps = 12;
};

// Stopped in an evaluation, then killed between that evaluation's line and its checkpoint: the
// evaluation is repeated, and its line stands once.
TEST_F(ChangedProgressTest, ARepeatedEvaluationHasOneLine) {
  ASSERT_EQ(run_program(words("whole", kAttention, kFewSteps)).status, 0);
  train_and_change("cut", [](json& at) { at["evaluation_pending"] = true; });
  end_and_compare("cut", kFewSteps);
}

// Speeds are of a share of a GPU where any part of the run had to share it.
TEST_F(ChangedProgressTest, ARunThatEndsAloneSaysThatItShared) {
  const auto sharing = [&](const std::string& name) {
    const ProgramResult resumed = run_program(words(name, kAttention, kFewSteps));
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    return parse_result(read_json(run(name) / kResultFile)).training.sharing;
  };
  train_and_change("shared", [](json& at) { at["sharing"] = 3; });
  EXPECT_EQ(sharing("shared"), 3);
  train_and_change("older", [](json& at) { EXPECT_EQ(at.erase("sharing"), 1u); });
  EXPECT_EQ(sharing("older"), 1);
}

// What was measured on another machine is no speed of this one.
TEST_F(ChangedProgressTest, ARunThatWentOnElsewhereIsMeasuredAnew) {
  constexpr int64_t kSteps = 300;
  const auto cost = [&](const std::string& name, int64_t steps) {
    const ProgramResult resumed = run_program(words(name, kAttention, steps));
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    return read_result(run(name) / kResultFile).training;
  };
  ASSERT_TRUE(kill_in_training(words("moved", kAttention, kSteps), {run("moved")},
                               std::chrono::milliseconds(0)));
  int64_t step = 0;
  change_progress("moved", [&](json& at) {
    EXPECT_NE(at["setting"], "");
    at["setting"] = "another machine";
    at["train_seconds"] = 1e6;
    at["seconds"] = 2e6;
    at["peak_bytes"] = int64_t{1} << 50;
    step = at["step"];
  });
  ASSERT_GT(step, 0);
  const TrainingCost moved = cost("moved", kSteps);
  EXPECT_EQ(moved.measured_from, step);
  EXPECT_GT(moved.steps_per_second.value(), 1);
  EXPECT_LT(moved.peak_memory_mib.value(), 1e6);
  EXPECT_GT(moved.seconds.value(), 2e6) << "of all of it";
  // No step is left to be measured.
  train_and_change("ended", [](json& at) { at["setting"] = "another machine"; });
  const TrainingCost ended = cost("ended", kFewSteps);
  EXPECT_EQ(ended.measured_from, kFewSteps);
  EXPECT_FALSE(ended.steps_per_second);
  EXPECT_GT(ended.seconds.value(), 0);
  // Where the same goes on, and in older checkpoints, which do not say.
  train_and_change("same", [](json&) {});
  EXPECT_EQ(cost("same", kFewSteps).measured_from, 0);
  train_and_change("older", [](json& at) {
    for (const char* key : {"setting", "measured_from", "seconds_before"}) at.erase(key);
  });
  const TrainingCost before = cost("older", kFewSteps);
  EXPECT_EQ(before.measured_from, 0);
  EXPECT_TRUE(before.steps_per_second);
}

// Killed between the two checkpoints of an evaluation, or behind them before the best has its name.
TEST_F(ChangedProgressTest, TheBestIsThatWhichTheLastCheckpointNames) {
  ASSERT_EQ(run_program(words("whole", kAttention, kFewSteps)).status, 0);
  train_and_change("early", [](json&) {});
  lra::change_progress(run("early") / kBestCheckpoint, run("early") / kNextBestCheckpoint,
                       [](json& at) { at["step"] = at["step"].get<int64_t>() + 1; });
  EXPECT_EQ(best_checkpoint(run("early")), run("early") / kBestCheckpoint);
  end_and_compare("early", kFewSteps);
  train_and_change("late", [](json&) {});
  fs::rename(run("late") / kBestCheckpoint, run("late") / kNextBestCheckpoint);
  EXPECT_EQ(best_checkpoint(run("late")), run("late") / kNextBestCheckpoint);
  end_and_compare("late", kFewSteps);
  for (const char* name : {"early", "late"})
    EXPECT_FALSE(fs::exists(run(name) / kNextBestCheckpoint)) << name;
}

class SlowTrainTest : public KilledTrainTest {};

TEST_F(SlowTrainTest, TenKillsAtRandomMomentsLeaveTheSameResult) {
  constexpr int64_t kSteps = 1000;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed of the delays: " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_program(words("whole", kAttention, kSteps)).status, 0);
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  std::uniform_int_distribution<int64_t> any_delay(0, whole.count() / 6);
  std::vector<std::string> names = {"cut0"};
  int kills = 0, kills_of_last = 0;
  for (int attempt = 0; attempt < 60 && kills < 10; ++attempt) {
    // A fresh run after five kills, or where one got to its end, so that early moments are hit as
    // well as late ones.
    if (kills_of_last == 5 || fs::exists(run(names.back()) / kResultFile)) {
      names.push_back("cut" + std::to_string(names.size()));
      kills_of_last = 0;
    }
    const std::chrono::milliseconds delay(any_delay(random));
    if (kill_in_training(words(names.back(), kAttention, kSteps), {run(names.back())}, delay)) {
      ++kills;
      ++kills_of_last;
    }
  }
  ASSERT_EQ(kills, 10) << "kills that hit a run in progress";
  for (const std::string& name : names) end_and_compare(name, kSteps);
}

}  // namespace
}  // namespace lra
