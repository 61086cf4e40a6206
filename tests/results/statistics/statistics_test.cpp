// Against scipy 1.17.1; the command that made each number stands beside it.
#include "results/statistics/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <fstream>
#include <vector>

#include "tests/results/examples.h"

namespace lra::stats {
namespace {

TEST(Statistics, WilsonIntervalEqualsScipys) {
  // stats.binomtest(k, n).proportion_ci(method='wilson')
  const Interval a = wilson_interval(741, 2000);
  EXPECT_NEAR(a.low, 0.34960176642480284, 1e-14);
  EXPECT_NEAR(a.high, 0.39189474882104164, 1e-14);
  const Interval none = wilson_interval(0, 10);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.27753279986288926, 1e-14);
  const Interval all = wilson_interval(10, 10);
  EXPECT_NEAR(all.low, 0.7224672001371109, 1e-14);
  EXPECT_EQ(all.high, 1);
  EXPECT_NEAR(wilson_interval(1, 1).low, 0.20654931437723745, 1e-14);
}

TEST(Statistics, WilsonIntervalRefusesWhatIsNoProportion) {
  EXPECT_EQ(error_text<std::exception>([] { wilson_interval(5, 0); }),
            "a proportion needs 0 <= correct <= count and count >= 1, not 5 of 0");
  EXPECT_THROW(wilson_interval(3, 2), std::runtime_error);
  EXPECT_THROW(wilson_interval(-1, 2), std::runtime_error);
}

// Examples that all agree within a cluster count once a cluster, those that do not as they are.
TEST(Statistics, ClusteredIntervalsCountClustersThatAgreeOnce) {
  const std::vector<Cluster> alike(50, {.correct = 4, .count = 4}), none(50, {.count = 4});
  EXPECT_EQ(clustered_interval(alike).low, wilson_interval(50, 50).low);
  EXPECT_EQ(clustered_interval(alike).high, 1);
  EXPECT_EQ(clustered_interval(none).high, wilson_interval(0, 50).high);
  std::vector<Cluster> whole, mixed;
  for (int i = 0; i < 100; ++i) {
    whole.push_back({.correct = i < 30 ? 4 : 0, .count = 4});
    mixed.push_back({.correct = i % 5 == 0 ? 2 : 1, .count = 4});
  }
  // p (1 - p) over the variance of 100 means of 0 or 1, with divisor n - 1, is 99.
  const Interval ci = clustered_interval(whole), of_99 = wilson_of_fraction(0.3, 99);
  EXPECT_NEAR(ci.low, of_99.low, 1e-12);
  EXPECT_NEAR(ci.high, of_99.high, 1e-12);
  // Clusters that differ less than examples drawn one by one would give at most their number.
  EXPECT_EQ(clustered_interval(mixed).low, wilson_interval(120, 400).low);
  EXPECT_THROW(clustered_interval({}), std::runtime_error);
}

// Of clusters whose examples share a chance that is drawn for each, the interval holds the mean as
// often as it says; Wilson's of all examples does not.
TEST(Statistics, ClusteredIntervalsHoldTheMean) {
  uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  int held = 0, held_by_wilson = 0;
  constexpr int kTrials = 1'000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<Cluster> clusters;
    int64_t correct = 0;
    for (int i = 0; i < 200; ++i) {
      const double chance = uniform() < 0.5 ? 0.9 : 0.3;
      Cluster cluster{.count = 8};
      for (int j = 0; j < 8; ++j) cluster.correct += uniform() < chance ? 1 : 0;
      correct += cluster.correct;
      clusters.push_back(cluster);
    }
    const Interval ci = clustered_interval(clusters), wilson = wilson_interval(correct, 1'600);
    held += ci.low <= 0.6 && 0.6 <= ci.high ? 1 : 0;
    held_by_wilson += wilson.low <= 0.6 && 0.6 <= wilson.high ? 1 : 0;
  }
  EXPECT_NEAR(held, 0.95 * kTrials, 3 * std::sqrt(0.95 * 0.05 * kTrials));
  EXPECT_LT(held_by_wilson, 0.85 * kTrials);
}

TEST(Statistics, StudentIntervalEqualsScipys) {
  // stats.t.interval(.95, 2, np.mean(x), stats.sem(x)), np.std(x, ddof=1)
  const std::vector<double> x{37.1, 36.2, 38.9};
  EXPECT_NEAR(mean(x), 37.4, 1e-13);
  EXPECT_NEAR(standard_deviation(x), 1.3747727084867498, 1e-13);
  EXPECT_NEAR(student_interval(x).low, 33.984875269762924, 1e-11);
  EXPECT_NEAR(student_interval(x).high, 40.81512473023709, 1e-11);
  EXPECT_EQ(error_text<std::exception>([] { student_interval(std::vector<double>{1}); }),
            "a Student interval needs at least 2 samples, not 1");
}

TEST(Statistics, SeedsThatAgreeHaveTheIntervalOfTheTestSet) {
  const Interval wilson = wilson_interval(280, 2000);
  const Interval same = seeds_interval(std::vector<double>{0.14, 0.14}, 2000);
  EXPECT_NEAR(same.low, wilson.low, 1e-14);
  EXPECT_NEAR(same.high, wilson.high, 1e-14);
  EXPECT_EQ(seeds_interval(std::vector<double>{0.1, 0.9}, 2000).low, 0);
  EXPECT_EQ(seeds_interval(std::vector<double>{0.1, 0.9}, 2000).high, 1);
}

TEST(Statistics, SeedsIntervalEqualsScipys) {
  const json cases =
      json::parse(std::ifstream(LRA_SOURCE_DIR "/tests/fixtures/statistics.json"))["seeds"];
  ASSERT_EQ(cases.size(), 4u);
  for (const json& c : cases) {
    const Interval ci = seeds_interval(c["accuracies"].get<std::vector<double>>(), c["count"]);
    EXPECT_NEAR(ci.low, c["low"].get<double>(), 1e-10) << c;
    EXPECT_NEAR(ci.high, c["high"].get<double>(), 1e-10) << c;
  }
}

// Of seeds that spread as much as one test set does, whatever their number: the wider of the two
// intervals alone holds the mean of 20 in 87 of 100.
TEST(Statistics, SeedsIntervalsHoldTheMean) {
  boost::random::mt19937_64 random(1);
  boost::random::normal_distribution<double> normal;
  constexpr int kTrials = 2'000;
  constexpr double kError = 0.01;  // of the mean, by the examples and by the seeds
  for (const int seeds : {3, 5, 20}) {
    int held = 0, held_by_wider = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const double shared = kError * normal(random);
      std::vector<double> accuracies;
      for (int i = 0; i < seeds; ++i)
        accuracies.push_back(0.5 + shared + kError * std::sqrt(seeds) * normal(random));
      const Interval ci = seeds_interval(accuracies, 2'500);
      held += ci.low <= 0.5 && 0.5 <= ci.high ? 1 : 0;
      const Interval student = student_interval(accuracies),
                     wilson = wilson_of_fraction(mean(accuracies), 2'500);
      held_by_wider +=
          std::min(student.low, wilson.low) <= 0.5 && 0.5 <= std::max(student.high, wilson.high)
              ? 1
              : 0;
    }
    if (seeds == 20) {
      EXPECT_NEAR(held_by_wider, 0.87 * kTrials, 0.02 * kTrials);
    }
    EXPECT_NEAR(held, 0.95 * kTrials, 3 * std::sqrt(0.95 * 0.05 * kTrials)) << seeds;
  }
}

TEST(Statistics, AMeanOfEstimatesHasTheIntervalOfTheirs) {
  // Zou and Donner 2008, equation 2, for a sum: l = sum - sqrt(sum (x - l)^2)
  const Estimate mean = mean_of_independent(
      std::vector<Estimate>{{.value = 10, .ci95 = {7, 14}}, {.value = 20, .ci95 = {16, 23}}});
  EXPECT_DOUBLE_EQ(mean.value, 15);
  EXPECT_DOUBLE_EQ(mean.ci95.low, 12.5);
  EXPECT_DOUBLE_EQ(mean.ci95.high, 17.5);
  EXPECT_THROW(mean_of_independent({}), std::runtime_error);
}

TEST(Statistics, MedianAndQuartilesEqualNumpys) {
  // np.median(x), stats.iqr(x)
  const MedianEstimate e = median_estimate(std::vector<double>{3, 1, 4, 1, 5, 9, 2, 6, 5, 3});
  EXPECT_EQ(e.median, 3.5);
  EXPECT_EQ(e.iqr, 2.75);
  EXPECT_EQ(e.min, 1);
}

TEST(Statistics, MedianIntervalTakesTheOrderStatisticsOfTheBinomial) {
  // l = 0; while stats.binom.cdf(l, n, .5) <= .025: l += 1  ->  ranks l and n + 1 - l
  const struct {
    int n, low, high;
  } cases[] = {{6, 1, 6}, {9, 2, 8}, {10, 2, 9}, {25, 8, 18}, {100, 40, 61}};
  for (const auto& c : cases) {
    std::vector<double> ranks;
    for (int i = c.n; i >= 1; --i) ranks.push_back(i);
    const MedianEstimate e = median_estimate(ranks);
    EXPECT_EQ(e.interval.low, c.low) << c.n;
    EXPECT_EQ(e.interval.high, c.high) << c.n;
  }
}

TEST(Statistics, MedianOfTooFewSamplesHasTheirRange) {
  const MedianEstimate five = median_estimate(std::vector<double>{5, 1, 2, 3, 4});
  EXPECT_EQ(five.interval.low, 1);
  EXPECT_EQ(five.interval.high, 5);
  const MedianEstimate one = median_estimate(std::vector<double>{7});
  EXPECT_EQ(one.median, 7);
  EXPECT_EQ(one.interval.low, 7);
  EXPECT_EQ(one.interval.high, 7);
  EXPECT_THROW(median_estimate(std::vector<double>{}), std::runtime_error);
}

}  // namespace
}  // namespace lra::stats
