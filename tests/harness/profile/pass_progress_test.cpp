// How far a profile says it is.
#include "harness/profile/pass_progress.h"

#include <gtest/gtest.h>

namespace lra::profile {
namespace {

TEST(PassProgressTest, CountsPassesAndGuessesTheRestFromTheCellsOwn) {
  PassProgress progress(3);
  for (size_t i = 0; i < 3; ++i) progress.set(i, 0, 2);
  EXPECT_EQ(progress.count(), "0/6");
  EXPECT_EQ(progress.eta(), "") << "nothing is known";
  progress.set(0, 1, 1);
  progress.took(0, 10);
  EXPECT_EQ(progress.count(), "1/6");
  EXPECT_EQ(progress.eta(), ", ETA 50s");
  progress.set(1, 1, 1);
  progress.took(1, 100);
  EXPECT_EQ(progress.eta(), ", ETA 3m40s") << "10 + 100 + 2 * 55";
  progress.set(0, 2, 1);  // it was noisy
  EXPECT_EQ(progress.count(), "3/7");
  for (size_t i = 0; i < 3; ++i) progress.set(i, 2, 0);
  EXPECT_EQ(progress.count(), "6/6");
  EXPECT_EQ(progress.eta(), "");
}

}  // namespace
}  // namespace lra::profile
