// What --compare calls slower, and what it does not.
#include "results/tables/profile_compare.h"

#include <gtest/gtest.h>

#include "tests/results/examples.h"

namespace lra {
namespace {

Profile cell(std::vector<double> samples, double mib = 10) {
  Profile p = example_profile("a", 512, mib, samples.at(samples.size() / 2));
  p.time->samples = std::move(samples);
  return p;
}

std::string verdict(const Profile& before, const Profile& now, double tolerance = 0.1) {
  const Comparison c =
      compare_profiles(std::vector<Profile>{before}, std::vector<Profile>{now}, tolerance);
  EXPECT_EQ(c.table.rows.size(), 1u);
  return c.table.rows.at(0).back() + (c.worse > 0 ? " !" : "");
}

const std::vector<double> kTen = {9.9, 9.9, 10, 10, 10, 10.1, 10.1};

std::vector<double> times(double factor) {
  std::vector<double> samples = kTen;
  for (double& sample : samples) sample *= factor;
  return samples;
}

TEST(Compare, TellsWhatIsSureFromWhatIsNot) {
  EXPECT_EQ(verdict(cell(kTen), cell(kTen)), "same");
  EXPECT_EQ(verdict(cell(kTen), cell(times(1.05))), "same");
  EXPECT_EQ(verdict(cell(kTen), cell(times(1.05)), 0.02), "slower !");
  EXPECT_EQ(verdict(cell(kTen), cell(times(1.3))), "slower !");
  EXPECT_EQ(verdict(cell(kTen), cell(times(0.7))), "faster");
  EXPECT_EQ(verdict(cell(kTen), cell(times(1.1))), "ambiguous");
  EXPECT_EQ(verdict(cell(kTen), cell({5, 6, 9, 10, 11, 30, 40})), "ambiguous");
}

TEST(Compare, CountsMemoryAndFailures) {
  EXPECT_EQ(verdict(cell(kTen), cell(kTen, 12)), "same, more memory !");
  EXPECT_EQ(verdict(cell(kTen, 12), cell(kTen)), "same, less memory");
  EXPECT_EQ(verdict(cell(kTen), cell(kTen, 10.5)), "same");
  Profile untold = cell(kTen);
  untold.memory->peak.reset();
  EXPECT_EQ(verdict(cell(kTen), untold), "same");
  EXPECT_EQ(verdict(untold, cell(kTen)), "same");
  Profile failed = cell(kTen);
  failed.status = Status::oom;
  failed.time.reset();
  failed.memory.reset();
  EXPECT_EQ(verdict(cell(kTen), failed), "fails !");
  EXPECT_EQ(verdict(failed, cell(kTen)), "runs now");
  EXPECT_EQ(verdict(failed, failed), "–");
}

TEST(Compare, PassesOverWhatOnlyOneOfThemHolds) {
  Profile longer = cell(kTen), elsewhere = cell(kTen);
  longer.length = 1024;
  elsewhere.machine.processor = "another";
  for (const Profile& other : {longer, elsewhere}) {
    const Comparison c =
        compare_profiles(std::vector<Profile>{other}, std::vector<Profile>{cell(kTen)}, 0.1);
    EXPECT_TRUE(c.table.rows.empty());
    EXPECT_EQ(c.worse, 0);
  }
}

TEST(Compare, ARecordWithoutSamplesIsAmbiguous) {
  Profile bare = cell(kTen);
  bare.time->samples.clear();
  EXPECT_EQ(verdict(bare, cell(kTen)), "ambiguous");
  EXPECT_EQ(verdict(cell(kTen), bare), "ambiguous");
}

TEST(Compare, SaysThatACellIsNoisy) {
  Profile noisy = cell(times(1.3));
  noisy.noisy = "others took 30 % of the processors";
  EXPECT_EQ(verdict(cell(kTen), noisy), "slower (noisy) !");
}

}  // namespace
}  // namespace lra
