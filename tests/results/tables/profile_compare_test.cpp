// What --compare calls slower, and what it does not.
#include "results/tables/profile_compare.h"

#include <fmt/format.h>
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
    ASSERT_EQ(c.table.notes.size(), 3u);
    EXPECT_EQ(c.table.notes[1], "not measured before: a at 512");
    EXPECT_EQ(c.table.notes[2],
              fmt::format("measured before alone, or not asked for now: a at {}", other.length));
  }
}

TEST(Compare, LeavesOutOtherOptionsAndSaysSo) {
  Profile before = cell(kTen), now = cell(times(2));
  before.attention.options = {{"landmarks", 32}};
  now.attention.options = {{"landmarks", 64}, {"since", true}};
  const Comparison c =
      compare_profiles(std::vector<Profile>{before}, std::vector<Profile>{now}, 0.1);
  EXPECT_TRUE(c.table.rows.empty());
  EXPECT_EQ(c.worse, 0);
  ASSERT_EQ(c.apart.size(), 1u);
  EXPECT_EQ(c.apart[0], "a at 512: option landmarks 32 before, 64 now");
  before.attention.options["landmarks"] = 64;
  EXPECT_EQ(verdict(before, now), "slower !") << "an option that came since";
}

// A gate that spells a default out loses no cell.
TEST(Compare, TakesOptionsInEffectForWhatTheyAre) {
  Profile before = cell(kTen), now = cell(times(2));
  before.attention = {.name = "linear", .label = "linear", .options = {{"normalise", true}}};
  now.attention = before.attention;
  now.attention.label = "linear[normalise=true]";
  const Comparison same = compare_profiles(std::vector{before}, std::vector{now}, 0.1);
  EXPECT_EQ(same.worse, 1);
  EXPECT_EQ(same.table.notes.size(), 1u) << "none that a cell is of one of them alone";
  now.attention.options["normalise"] = false;
  const Comparison other = compare_profiles(std::vector{before}, std::vector{now}, 0.1);
  EXPECT_TRUE(other.table.rows.empty());
  EXPECT_EQ(other.table.notes.size(), 3u);
  for (Profile* one : {&before, &now}) {
    one->package = "quick 1.0";
    one->attention.options = json::object();
  }
  EXPECT_TRUE(compare_profiles(std::vector{before}, std::vector{now}, 0.1).table.rows.empty())
      << "of another package their labels alone say what they are";
}

TEST(Compare, SaysWhatWasMeasuredOtherwise) {
  Profile before = cell(kTen), now = cell(times(2));
  before.machine.gpu_driver = "550.1";
  now.machine.gpu_driver = "580.95.05";
  before.machine.huge_pages = "never";
  now.machine.huge_pages = "madvise";
  before.method["pinned"] = nullptr;
  now.method["pinned"] = {0, 1};
  before.software["torch"] = "2.5.1";  // the other does not say it
  const Comparison c =
      compare_profiles(std::vector<Profile>{before}, std::vector<Profile>{now}, 0.1);
  ASSERT_EQ(c.table.notes.size(), 2u);
  EXPECT_EQ(c.table.notes[1],
            "measured otherwise: a at 512: driver 550.1 before, 580.95.05 now, huge pages never "
            "before, madvise now, threads not "
            "pinned before, pinned now");
}

TEST(Compare, RowsCanBeToldApart) {
  Profile own = cell(kTen), foreign = cell(times(2)), larger = cell(times(3));
  foreign.package = "peer 1.0";
  larger.batch = 4;
  const std::vector<Profile> all = {own, foreign, larger};
  const Table table = compare_profiles(all, all, 0.1).table;
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[1][0], "a (peer 1.0)");
  EXPECT_EQ(table.columns[2].header, "setting");
  EXPECT_NE(table.rows[0][2], table.rows[2][2]);
  const Table alike = compare_profiles(std::vector{own}, std::vector{own}, 0.1).table;
  EXPECT_EQ(alike.columns[2].header, "before, ms");
  EXPECT_NE(alike.title.find(", batch 1, "), std::string::npos) << alike.title;
}

TEST(Compare, FewSamplesDecideNothing) {
  EXPECT_EQ(verdict(cell({100}), cell({112})), "ambiguous");
  EXPECT_EQ(
      verdict(cell({100, 100, 100, 100, 100, 100}), cell({112, 112, 112, 112, 112, 112}), 0.1),
      "slower !");
}

TEST(Compare, LeavesOutWhatIsOfOtherValuesOfTheProtocolAndSaysSo) {
  const auto of = [](const std::string& values, const std::string& settings, double factor = 1) {
    Profile p = cell(times(factor));
    p.scope = ProfileScope::model;
    p.protocol = "mine";
    p.protocol_sha256 = values;
    p.settings_sha256 = settings;
    return p;
  };
  const std::string one(64, '1'), two(64, '2');
  const auto compared = [](const std::vector<Profile>& before, const Profile& now) {
    Profile longer = now;
    longer.length = 1024;
    std::vector<Profile> both = before;
    both.push_back(longer);
    both.back().protocol_sha256.clear();
    both.back().settings_sha256.clear();
    const Comparison c = compare_profiles(both, std::vector<Profile>{now, longer}, 0.1);
    EXPECT_EQ(c.table.rows.back()[1], "1024") << "what says nothing is compared";
    EXPECT_EQ(c.table.notes.size(), 1 + c.apart.size());
    return c;
  };
  Comparison c = compared({of(one, "s")}, of(two, "t", 2));
  EXPECT_EQ(c.table.rows.size(), 1u);
  ASSERT_EQ(c.apart.size(), 1u);
  EXPECT_EQ(c.apart[0], "a at 512: protocol mine, protocol_sha256 11111111 before, 22222222 now");
  EXPECT_EQ(c.table.notes.back(), "not compared, of another setting: " + c.apart[0]);
  EXPECT_EQ(c.worse, 0);
  c = compared({of("", "s")}, of(two, "t"));
  ASSERT_EQ(c.apart.size(), 1u);
  EXPECT_EQ(c.apart[0], "a at 512: protocol mine, settings_sha256 s before, t now");
  // A later version may have more settings: the values decide.
  EXPECT_EQ(compared({of(one, "s")}, of(one, "t")).table.rows.size(), 2u);
  EXPECT_EQ(compared({of("", "")}, of(one, "t")).table.rows.size(), 2u) << "an earlier record";
  c = compared({of(one, "s"), of(two, "t", 3)}, of(one, "s"));
  ASSERT_EQ(c.table.rows.size(), 2u);
  EXPECT_EQ(c.table.rows[0].back(), "same") << "with the one of the same values";
}

TEST(Compare, SaysWhereOtherKernelsMeasured) {
  Profile before = cell(kTen), now = cell(kTen);
  before.software["kernels"] = "avx2";
  const auto notes = [&] {
    return compare_profiles(std::vector<Profile>{before}, std::vector<Profile>{now}, 0.1)
        .table.notes;
  };
  EXPECT_EQ(notes().size(), 1u) << "a record that does not say it";
  now.software["kernels"] = "avx512";
  ASSERT_EQ(notes().size(), 2u);
  EXPECT_EQ(notes()[1],
            "another processor, or other kernels of it: a at 512: kernels avx2 before, avx512 now");
  EXPECT_EQ(verdict(before, now), "same");
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
