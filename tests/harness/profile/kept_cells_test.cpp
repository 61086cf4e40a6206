// What a file of lra profile holds already, and a later call into it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/profile/profile_fixture.h"

namespace lra::profile {
namespace {

class KeptCellsTest : public ProfileFileTest {
 protected:
  ProgramResult profile(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"profile", "--out",     out_,           "--threads", "1",
                                      "--mode",  "inference", "--attentions", "standard"};
    const std::vector<std::vector<std::string>> usual = {{"--batch", "1"}, {"--seconds", "0.03"}};
    for (const auto& option : usual) {
      if (std::ranges::find(more, option.front()) == more.end()) words = with(words, option);
    }
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
};

TEST_F(KeptCellsTest, PassesOfACellArePinnedOrNot) {
  ASSERT_EQ(profile({"--lengths", "64", "--no-pin", "--passes", "1"}).status, 0);
  const ProgramResult kept = profile({"--lengths", "64", "--passes", "1"});
  EXPECT_EQ(kept.status, 0) << "nothing is measured";
  EXPECT_NE(
      kept.err.find(out_ + " has 1 of these cells measured with threads that were not pinned; "
                           "another --out"),
      std::string::npos)
      << kept.err;
  const ProgramResult longer =
      profile({"--lengths", "64", "--no-pin", "--passes", "1", "--seconds", "0.04"});
  EXPECT_NE(longer.err.find(" measured with --seconds 0.03;"), std::string::npos) << longer.err;
  const ProgramResult pinned = profile({"--lengths", "64", "--passes", "3"});
  EXPECT_EQ(pinned.status, 1);
  EXPECT_NE(
      pinned.err.find("has passes of standard N=64 measured with threads that were not pinned"),
      std::string::npos)
      << pinned.err;
  const ProgramResult same = profile({"--lengths", "64", "--no-pin", "--passes", "3"});
  EXPECT_EQ(same.status, 0);
  EXPECT_EQ(same.err.find("cells measured"), std::string::npos) << same.err;
}

// Clouds call several processors by one name.
TEST_F(KeptCellsTest, CellsOfAnotherProcessorAreRefused) {
  ASSERT_EQ(profile({"--lengths", "64", "--passes", "1"}).status, 0);
  Profile before = cells().at(0);
  before.machine.processor_model = "family 1 model 2 stepping 3";
  write_file(out_, make_profile(before).dump() + "\n");
  const ProgramResult other = profile({"--lengths", "64", "--passes", "1"});
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("has standard N=64 measured on a processor family 1 model 2 stepping 3"),
            std::string::npos)
      << other.err;
}

TEST_F(KeptCellsTest, PassesOfACellHaveTheSamePages) {
  ASSERT_EQ(profile({"--lengths", "64", "--passes", "1"}).status, 0);
  Profile before = cells().at(0);
  if (before.machine.huge_pages.empty()) GTEST_SKIP() << "this system has no huge pages";
  before.machine.huge_pages = "other";
  write_file(out_, make_profile(before).dump() + "\n");
  EXPECT_NE(profile({"--lengths", "64", "--passes", "1"})
                .err.find(" has 1 of these cells measured under huge pages other;"),
            std::string::npos);
  const ProgramResult more = profile({"--lengths", "64", "--passes", "2"});
  EXPECT_EQ(more.status, 1);
  EXPECT_NE(more.err.find("has passes of standard N=64 measured under huge pages other"),
            std::string::npos)
      << more.err;
}

TEST_F(KeptCellsTest, EarlierFailuresAreSaid) {
  const ProgramResult first =
      profile({"--lengths", "1024", "--passes", "1", "--memory-limit", "1MiB"});
  EXPECT_EQ(first.status, 0) << first.err;
  ASSERT_EQ(cells().at(0).status, Status::oom);
  EXPECT_EQ(first.err.find("--again"), std::string::npos) << first.err;
  const ProgramResult again = profile({"--lengths", "1024", "--passes", "1"});
  EXPECT_NE(again.err.find("holds 1 earlier cell without a result"), std::string::npos)
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

// That a trial took too long does not say that it does not fit.
TEST_F(KeptCellsTest, ABatchWhoseTrialDidNotEndIsNotFound) {
  const ProgramResult found =
      run_program({"profile", "--out", out_, "--threads", "1", "--mode", "training", "--lengths",
                   "1024", "--batch", "largest", "--memory-limit", "1GiB", "--timeout", "0.4",
                   "--heads", "8", "--attentions", "standard[implementation=materialized]"});
  EXPECT_EQ(found.status, 1);
  EXPECT_NE(found.err.find("N=1024 with batch "), std::string::npos) << found.err;
  EXPECT_NE(found.err.find("ended in timeout (took longer than 0.4 s), so what fits is not known: "
                           "give more --timeout, or --batch as a number"),
            std::string::npos)
      << found.err;
  EXPECT_FALSE(std::filesystem::exists(out_));
}

// A batch that failed is found anew.
TEST_F(KeptCellsTest, ABatchThatFailedIsTriedOutAgain) {
  const std::vector<std::string> words = {"--lengths", "1024",    "--passes",       "1",
                                          "--batch",   "largest", "--memory-limit", "14MiB"};
  ASSERT_EQ(profile(words).status, 0);
  Profile failed = cells().at(0);
  EXPECT_EQ(failed.status, Status::ok) << failed.reason;
  failed.batch = 64;
  failed.status = Status::oom;
  failed.reason = "out of memory";
  failed.time.reset();
  failed.memory.reset();
  write_file(out_, make_profile(failed).dump() + "\n");
  const ProgramResult kept = profile(words);
  EXPECT_NE(kept.err.find("--again"), std::string::npos) << kept.err;
  EXPECT_EQ(cells().at(0).batch, 64);
  ASSERT_EQ(profile(with(words, {"--again"})).status, 0);
  ASSERT_EQ(cells().size(), 1u);
  EXPECT_EQ(cells()[0].status, Status::ok);
  EXPECT_EQ(cells()[0].batch, 8);
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
