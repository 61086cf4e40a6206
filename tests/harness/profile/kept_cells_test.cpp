// What a file of lra profile holds already, and a later call into it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/profile/profile_fixture.h"

namespace lra::profile {
namespace {

class KeptCellsTest : public ProfileFileTest {
 protected:
  ProgramResult profile(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"profile",   "--out",        out_,      "--seconds",
                                      "0.03",      "--threads",    "1",       "--mode",
                                      "inference", "--attentions", "standard"};
    if (std::ranges::find(more, "--batch") == more.end())
      words.insert(words.end(), {"--batch", "1"});
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

// What fits is other from call to call: the file says what it was.
TEST_F(KeptCellsTest, BatchesThatWereFoundAreKept) {
  const std::vector<std::string> words = {"--lengths", "1024",    "--passes",       "1",
                                          "--batch",   "largest", "--memory-limit", "14MiB"};
  ASSERT_EQ(profile(words).status, 0);
  Profile before = cells().at(0);
  before.batch = 4;
  write_file(out_, make_profile(before).dump() + "\n");
  ASSERT_EQ(profile(words).status, 0);
  ASSERT_EQ(cells().size(), 1u);
  EXPECT_EQ(cells()[0].batch, 4);
}

TEST_F(KeptCellsTest, ALengthThatHasMoreTokensThanABatchIsRefused) {
  const ProgramResult few = profile({"--lengths", "64,1024", "--batch", "tokens=512"});
  EXPECT_EQ(few.status, 2);
  EXPECT_NE(few.err.find("--batch tokens=512: one sample of --lengths 1024 has more tokens"),
            std::string::npos)
      << few.err;
}

}  // namespace
}  // namespace lra::profile
