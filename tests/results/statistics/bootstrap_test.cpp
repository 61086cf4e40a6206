// Medians over passes, ratios, growth and crossings, on samples whose answers are known.
#include "results/statistics/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lra::stats {
namespace {

using Passes = std::vector<std::vector<double>>;

TEST(BootstrapMedian, IsTheMedianAndHoldsIt) {
  const Estimate e = bootstrap_median(std::vector<double>{5, 1, 4, 2, 3});
  EXPECT_EQ(e.value, 3);
  EXPECT_LE(e.ci95.low, 3);
  EXPECT_GE(e.ci95.high, 3);
  EXPECT_GE(e.ci95.low, 1);
  EXPECT_LE(e.ci95.high, 5);
  EXPECT_EQ(bootstrap_median(std::vector<double>{2, 4}).value, 3);
  const Estimate one = bootstrap_median(std::vector<double>{7});
  EXPECT_EQ(one.ci95.low, 7);
  EXPECT_EQ(one.ci95.high, 7);
  EXPECT_THROW(bootstrap_median(std::vector<double>{}), std::runtime_error);
}

// The interval of the median of n normal samples has the half-width 1.96 sqrt(pi / 2 / n).
TEST(BootstrapMedian, HasTheWidthThatTheoryGives) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(100, 1);
  double width = 0;
  int covered = 0;
  const int trials = 200, n = 101;
  for (int t = 0; t < trials; ++t) {
    std::vector<double> samples(n);
    for (double& sample : samples) sample = normal(random);
    const Estimate e = bootstrap_median(samples);
    width += (e.ci95.high - e.ci95.low) / 2 / trials;
    covered += e.ci95.low <= 100 && 100 <= e.ci95.high ? 1 : 0;
  }
  EXPECT_NEAR(width, 1.96 * std::sqrt(M_PI / 2 / n), 0.1 * 1.96 * std::sqrt(M_PI / 2 / n));
  EXPECT_GE(covered, trials * 90 / 100);
  EXPECT_LE(covered, trials * 99 / 100);
}

TEST(MedianOverPasses, CountsEachPassTheSame) {
  const Passes passes = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {2}, {3}};
  EXPECT_EQ(median_over_passes(passes).value, 2);
  EXPECT_THROW(median_over_passes({}), std::runtime_error);
  EXPECT_THROW(median_over_passes({{1}, {}}), std::runtime_error);
}

TEST(MedianOverPasses, HoldsWhatDiffersBetweenProcesses) {
  const Passes alike = {{10, 10, 10}, {10, 10, 10}, {10, 10, 10}},
               apart = {{9, 9, 9}, {10, 10, 10}, {11, 11, 11}};
  EXPECT_EQ(median_over_passes(alike).precision(), 0);
  EXPECT_NEAR(median_over_passes(apart).precision(), 0.1, 1e-12);
}

// How many of 100 intervals hold the true median where processes differ by 2 %, and their calls,
// `samples` a process, by 1 %.
int covered(int passes, int samples) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  int held = 0;
  constexpr int kTrials = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    Passes all(passes);
    for (auto& pass : all) {
      const double middle = 1 + 0.02 * normal(random);
      for (int i = 0; i < samples; ++i) pass.push_back(middle * (1 + 0.01 * normal(random)));
    }
    const Interval ci = median_over_passes(all).ci95;
    held += ci.low <= 1 && 1 <= ci.high ? 1 : 0;
  }
  return 100 * held / kTrials;
}

// As docs/profile.md and notes below tables say: so few processes tell less than 95 % would, and
// less again where the median of each is sharp.
TEST(MedianOverPasses, HasTheCoverageThatIsSaidOfIt) {
  EXPECT_NEAR(covered(1, 12), 25, 6);
  EXPECT_NEAR(covered(2, 12), 60, 6);
  EXPECT_NEAR(covered(3, 12), 83, 5);
  EXPECT_NEAR(covered(10, 12), 93, 4);
  EXPECT_NEAR(covered(1, 150), 8, 4);
  EXPECT_NEAR(covered(2, 150), 53, 6);
  EXPECT_NEAR(covered(3, 150), 73, 5);
  EXPECT_NEAR(covered(10, 150), 90, 4);
}

TEST(MedianOverPasses, IsTheSameEachTime) {
  const Passes passes = {{1, 2, 3, 4}, {2, 3, 4}, {1, 5}};
  EXPECT_EQ(median_over_passes(passes).ci95.high, median_over_passes(passes).ci95.high);
}

TEST(RatioOverPasses, OfKnownSamples) {
  const Estimate ratio = ratio_over_passes({{4, 4}, {4, 4}}, {{2}, {2}});
  EXPECT_EQ(ratio.value, 2);
  EXPECT_EQ(ratio.ci95.low, 2);
  EXPECT_EQ(ratio.ci95.high, 2);
}

TEST(GrowthFit, EqualsScipysRegression) {
  // stats.linregress(np.log(n), np.log(mib)).slope
  const std::vector<double> n{512, 1024, 2048, 4096, 8192};
  EXPECT_NEAR(growth(n, std::vector<double>{54, 186, 685, 2620, 10233})->exponent,
              1.8948300361658963, 1e-12);
  EXPECT_NEAR(growth(n, std::vector<double>{35, 63, 118, 229, 450})->exponent, 0.923092021314117,
              1e-12);
}

TEST(GrowthFit, NeedsTwoLengths) {
  EXPECT_FALSE(growth(std::vector<double>{512}, std::vector<double>{3}));
  EXPECT_FALSE(growth(std::vector<double>{512, 512}, std::vector<double>{3, 4}));
  EXPECT_FALSE(growth(std::vector<double>{512, 1024}, std::vector<double>{0, 4}));
}

TEST(GrowthFit, HasTheTextbookInterval) {
  // Exact powers leave no residual.
  const std::vector<double> n{1, 2, 4, 8};
  const auto square = growth(n, std::vector<double>{3, 12, 48, 192});
  EXPECT_NEAR(square->exponent, 2, 1e-12);
  EXPECT_NEAR(square->ci95->high - square->ci95->low, 0, 1e-9);
  // log2 values 0, 1, 2, 4 at 0, 1, 2, 3: slope 1.3, residual sum 0.3 with 2 degrees of freedom,
  // sum of squares 5, t = 4.302653: half-width 4.302653 sqrt(0.15 / 5) = 0.745241.
  const auto bent = growth(n, std::vector<double>{1, 2, 4, 16});
  EXPECT_NEAR(bent->exponent, 1.3, 1e-12);
  EXPECT_NEAR(bent->ci95->low, 1.3 - 0.745241, 1e-5);
  EXPECT_NEAR(bent->ci95->high, 1.3 + 0.745241, 1e-5);
  EXPECT_FALSE(growth(std::vector<double>{1, 2}, std::vector<double>{1, 2})->ci95.has_value());
  EXPECT_FALSE(growth(std::vector<double>{2}, std::vector<double>{1}).has_value());
}

TEST(CrossingPoint, IsInterpolatedOnLogarithmicAxes) {
  const std::vector<double> n{512, 1024, 2048};
  const auto of = [&](std::vector<double> costs, std::vector<double> baseline) {
    return crossing(n, costs, baseline);
  };
  EXPECT_EQ(of({1, 1, 1}, {2, 2, 2}).kind, Crossing::Kind::always);
  EXPECT_EQ(of({2, 2, 2}, {2, 2, 2}).kind, Crossing::Kind::never);
  const Crossing at = of({2, 2, 2}, {1, 4, 9});
  ASSERT_EQ(at.kind, Crossing::Kind::from);
  EXPECT_NEAR(at.length, 512 * std::sqrt(2), 1e-9);
  EXPECT_EQ(of({1, 5, 1}, {2, 2, 2}).kind, Crossing::Kind::from) << "below for good from 2048 on";
  EXPECT_GT(of({1, 5, 1}, {2, 2, 2}).length, 1024);
  EXPECT_EQ(crossing({}, {}, {}).kind, Crossing::Kind::never);
}

}  // namespace
}  // namespace lra::stats
