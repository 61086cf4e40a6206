// What a file of lra profile holds already, and a later call into it.
#include <gtest/gtest.h>

#include "tests/harness/profile/profile_fixture.h"

namespace lra::profile {
namespace {

class KeptCellsTest : public ProfileFileTest {
 protected:
  ProgramResult profile(const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "profile", "--out",     out_,      "--seconds", "0.03",         "--threads", "1",
        "--mode",  "inference", "--batch", "1",         "--attentions", "standard"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
};

TEST_F(KeptCellsTest, PassesOfACellArePinnedOrNot) {
  ASSERT_EQ(profile({"--lengths", "64", "--no-pin", "--passes", "1"}).status, 0);
  EXPECT_EQ(profile({"--lengths", "64", "--passes", "1"}).status, 0) << "nothing is measured";
  const ProgramResult pinned = profile({"--lengths", "64", "--passes", "3"});
  EXPECT_EQ(pinned.status, 1);
  EXPECT_NE(
      pinned.err.find("has passes of standard N=64 measured with threads that were not pinned"),
      std::string::npos)
      << pinned.err;
  EXPECT_EQ(profile({"--lengths", "64", "--no-pin", "--passes", "3"}).status, 0);
}

TEST_F(KeptCellsTest, FailuresOfBeforeAreSaid) {
  const ProgramResult first =
      profile({"--lengths", "1024", "--passes", "1", "--memory-limit", "1MiB"});
  EXPECT_EQ(first.status, 0) << first.err;
  ASSERT_EQ(cells().at(0).status, Status::oom);
  EXPECT_EQ(first.err.find("--again"), std::string::npos) << first.err;
  const ProgramResult again = profile({"--lengths", "1024", "--passes", "1"});
  EXPECT_NE(again.err.find("1 cell of before that did not end stands in"), std::string::npos)
      << again.err;
}

}  // namespace
}  // namespace lra::profile
