// How many times as fast, in words.
#include "results/tables/profile_speed.h"

#include <gtest/gtest.h>

#include "tests/results/examples.h"

namespace lra {
namespace {

Profile timed_cell(const std::string& attention, int64_t length, double ms) {
  Profile p = example_profile(attention, length, 10, ms);
  p.time->samples = {0.99 * ms, 0.99 * ms, ms, ms, 1.01 * ms, 1.01 * ms};
  return p;
}

using Lines = std::vector<std::string>;

TEST(SpeedText, SaysHowManyTimesAsFastAndHowSureThatIs) {
  const std::vector<Profile> cells = {timed_cell("slow", 512, 16), timed_cell("fast", 512, 10),
                                      timed_cell("slow", 1024, 40), timed_cell("fast", 1024, 10)};
  const Lines lines = speed_texts(cells);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with("N=512: fast is 1.60 ± 0.0")) << lines[0];
  EXPECT_TRUE(lines[0].ends_with(" times as fast as slow")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("N=1024: fast is 4.0")) << lines[1];
}

// A busy machine: some passes of the slow one took three times as long.
TEST(SpeedText, GivesBothEndsOfAnIntervalThatIsFarWiderToOneSide) {
  Profile slow = timed_cell("slow", 512, 20);
  slow.time->samples = {19.8, 20, 20, 20.2, 60, 61, 62};
  const Lines lines = speed_texts(std::vector{slow, timed_cell("fast", 512, 10)});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("N=512: fast is 2.02 [1.9")) << lines[0];
  EXPECT_EQ(lines[0].find("±"), lines[0].npos) << lines[0];
}

TEST(SpeedText, CallsNeitherFasterWhereTheyCannotBeTold) {
  Profile a = timed_cell("a", 512, 10), b = timed_cell("b", 512, 10.01);
  b.noisy = "others took 50 % of the processors";
  const Lines lines = speed_texts(std::vector{a, b});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("N=512: a and b are not told apart: 1.00")) << lines[0];
  EXPECT_TRUE(lines[0].ends_with(" (noisy)")) << lines[0];
}

TEST(SpeedText, OfManyAttentionsSpeaksOfTheLongestLengthAlone) {
  std::vector<Profile> cells;
  for (const int64_t length : {512, 1024}) {
    for (const int i : {1, 2, 3, 4, 5}) cells.push_back(timed_cell(std::to_string(i), length, i));
  }
  cells.push_back(timed_cell("alone", 2048, 1));
  const Lines lines = speed_texts(cells);
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_TRUE(line.starts_with("N=1024: 1 is ")) << line;
}

TEST(SpeedText, SaysNothingOfOneOrOfWhatFailed) {
  Profile failed = timed_cell("b", 512, 1);
  failed.status = Status::oom;
  failed.time.reset();
  EXPECT_EQ(speed_texts(std::vector{timed_cell("a", 512, 1)}), Lines());
  EXPECT_EQ(speed_texts(std::vector{timed_cell("a", 512, 1), failed}), Lines());
  EXPECT_EQ(speed_texts({}), Lines());
  Profile bare = timed_cell("c", 512, 2);
  bare.time->samples.clear();
  EXPECT_EQ(speed_texts(std::vector{timed_cell("a", 512, 1), bare}), Lines());
}

}  // namespace
}  // namespace lra
