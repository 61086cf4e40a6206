// lra profile --compare.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/harness/profile/profile_fixture.h"

namespace lra::profile {
namespace {

TEST_F(ProfileTest, ComparesWithAnEarlierProfile) {
  const std::vector<std::string> words = {"--lengths", "256",     "--attentions",
                                          "standard",  "--batch", "1"};
  ASSERT_EQ(profile(words).status, 0);
  const std::string old = (scratch_.path() / "old.jsonl").string();
  const auto write_scaled = [&](double factor) {
    Profile cell = cells().at(0);
    for (double& sample : cell.time->samples) sample *= factor;
    cell.time->median *= factor;
    cell.time->min.reset();
    cell.time->ci95.reset();
    write_file(old, make_profile(cell).dump() + "\n");
  };
  std::vector<std::string> comparing = words;
  comparing.insert(comparing.end(), {"--compare", old});
  write_scaled(1);
  const ProgramResult same = profile(comparing);
  EXPECT_EQ(same.status, 0) << same.text();
  EXPECT_NE(same.out.find("1.000 ["), std::string::npos) << same.out;
  write_scaled(0.01);  // a hundredth of the time before
  const ProgramResult slower = profile(comparing);
  EXPECT_EQ(slower.status, 1) << slower.text();
  EXPECT_NE(slower.out.find("slower"), std::string::npos) << slower.out;
  EXPECT_NE(slower.err.find("1 of 1 cells are worse"), std::string::npos) << slower.err;
  write_scaled(100);
  EXPECT_NE(profile(comparing).out.find("faster"), std::string::npos);
  Profile other = cells().at(0);
  other.length = 8;
  write_file(old, make_profile(other).dump() + "\n");
  // Before anything is measured.
  const std::string measured = read_file(out_);
  std::filesystem::remove(out_);
  EXPECT_NE(profile(comparing).err.find("has no cell in common"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(out_));
  write_file(out_, measured);
  write_file(old, "no JSON\n");
  const ProgramResult refused = profile(comparing);
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(refused.err.starts_with("lra: --compare: " + old + " is not a profile"))
      << refused.err;
}

}  // namespace
}  // namespace lra::profile
