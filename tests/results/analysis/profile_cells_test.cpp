#include "results/analysis/profile_cells.h"

#include <gtest/gtest.h>

#include "tests/results/examples.h"

namespace lra {
namespace {

using PassSamples = std::vector<std::vector<double>>;

TEST(PassesOf, LeaveNoisyOnesOutWhereEnoughAreQuiet) {
  ProfileTime time{.median = 1, .samples = {1, 2, 3, 4, 5}};
  EXPECT_EQ(passes_of(time, 1), (PassSamples{{1, 2, 3, 4, 5}})) << "one process";
  time.passes = {{.samples = 2}, {.samples = 1, .noisy = "loud"}, {.samples = 2}};
  EXPECT_EQ(passes_of(time, 2), (PassSamples{{1, 2}, {4, 5}}));
  EXPECT_EQ(passes_of(time, 3), (PassSamples{{1, 2}, {3}, {4, 5}}));
}

TEST(RooflineModel, IsTheLowerOfTheTwoLines) {
  const Roofline machine{.gflops = 300, .gigabytes_per_second = 40};
  EXPECT_DOUBLE_EQ(attainable_gflops(machine, 1e9, 1e8), 300) << "10 operations a byte";
  EXPECT_DOUBLE_EQ(attainable_gflops(machine, 1e9, 2e8), 200) << "5 a byte";
  EXPECT_DOUBLE_EQ(attainable_gflops(machine, 1e9, 0), 300) << "nothing has to move";
}

}  // namespace
}  // namespace lra
