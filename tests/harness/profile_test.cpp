// lra profile: one line a cell, whatever becomes of it.
#include <gtest/gtest.h>

#include "results/records.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

class ProfileTest : public testing::Test {
 protected:
  ProgramResult profile(std::vector<std::string> words) {
    words.insert(words.begin(), "profile");
    words.insert(words.end(), {"--out", out_, "--seconds", "0.05", "--threads", "1"});
    return run_program(words);
  }
  std::vector<Profile> cells() const {
    const Records records = find_records({out_});
    EXPECT_TRUE(records.bad.empty());
    return records.profiles;
  }

  Scratch scratch_;
  std::string out_ = (scratch_.path() / "p.jsonl").string();
};

TEST_F(ProfileTest, MeasuresEveryAttentionLengthScopeAndMode) {
  for (const char* scope : {"core", "module", "model"}) {
    for (const char* mode : {"inference", "training"}) {
      const ProgramResult result =
          profile({"--lengths", "64,128", "--scope", scope, "--mode", mode, "--attentions",
                   "standard,nystrom[num_landmarks=16]", "--batch", "2"});
      ASSERT_EQ(result.status, 0) << result.err;
    }
  }
  const auto all = cells();
  ASSERT_EQ(all.size(), 3u * 2 * 2 * 2);
  for (const Profile& cell : all) {
    EXPECT_EQ(cell.status, "ok") << cell.reason;
    EXPECT_GT(cell.time->median, 0);
    EXPECT_GE(cell.time->samples.size(), 3u);
    EXPECT_GT(cell.memory->peak, 0);
    EXPECT_EQ(cell.batch, 2);
    EXPECT_EQ(cell.threads, 1);
  }
  EXPECT_EQ(all[1].attention.label, "nystrom[num_landmarks=16]");
  EXPECT_EQ(all[1].attention.options["num_landmarks"], 16);
}

// q, k, v are inputs and not counted; the materialized scores, softmax and output are at least
// B·H·N·(N + d) floats.
TEST_F(ProfileTest, MemoryOfTheMaterializedBaselineIsItsMatrix) {
  ASSERT_EQ(profile({"--lengths", "512", "--scope", "core", "--mode", "inference", "--attentions",
                     "standard[implementation=materialized],standard"})
                .status,
            0);
  const auto all = cells();
  const double matrix = 2.0 * 512 * 512 * 4 / (1024 * 1024);
  EXPECT_GT(all[0].memory->peak, matrix);
  EXPECT_LT(all[0].memory->peak, 4 * matrix);
  EXPECT_LT(all[1].memory->peak, matrix / 2) << "fused holds no N x N";
}

TEST_F(ProfileTest, WhatNeedsTooMuchMemoryIsOomAndTheOthersGoOn) {
  const ProgramResult result =
      profile({"--lengths", "128,4096", "--scope", "core", "--mode", "inference", "--memory-limit",
               "64MiB", "--attentions", "standard[implementation=materialized],standard"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto all = cells();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].status, "ok");
  EXPECT_EQ(all[1].status, "ok");
  EXPECT_EQ(all[2].status, "oom");
  EXPECT_NE(all[2].reason.find("out of memory"), std::string::npos) << all[2].reason;
  EXPECT_FALSE(all[2].time.has_value());
  EXPECT_EQ(all[3].status, "ok");
}

TEST_F(ProfileTest, ASecondCallMeasuresOnlyWhatIsMissing) {
  ASSERT_EQ(profile({"--lengths", "64", "--attentions", "standard"}).status, 0);
  const auto first = cells();
  ASSERT_EQ(profile({"--lengths", "64,96", "--attentions", "standard"}).status, 0);
  const auto both = cells();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].time->samples, first[0].time->samples);
  EXPECT_EQ(both[1].length, 96);
}

TEST_F(ProfileTest, RefusesWithOneLineThatHelps) {
  EXPECT_NE(
      profile({"--preset", "table"}).err.find("unknown preset 'table'; did you mean 'table1'?"),
      std::string::npos);
  EXPECT_NE(profile({"--attentions", "standrad"}).err.find("did you mean 'standard'?"),
            std::string::npos);
  EXPECT_NE(profile({"--attentions", "nystrom[num_landmark=3]"})
                .err.find("did you mean 'num_landmarks'?"),
            std::string::npos);
  EXPECT_NE(
      profile({"--memory-limit", "lots"}).err.find("--memory-limit should be a size such as 8GiB"),
      std::string::npos);
  EXPECT_NE(profile({"--dtype", "int8"}).err.find("--dtype should be float32, float64 or bfloat16"),
            std::string::npos);
  EXPECT_EQ(profile({"--lengths", "0"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(out_)) << "nothing half-written";
  write_file(out_, "not a profile\n");
  const ProgramResult result = profile({"--lengths", "64", "--attentions", "standard"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("is not a profile of this program"), std::string::npos) << result.err;
  EXPECT_EQ(read_file(out_), "not a profile\n") << "a file of the user's is left alone";
}

}  // namespace
}  // namespace lra
