// Against scipy and statsmodels: tests/parity/make_statistics_fixtures.py wrote the fixtures.
#include "results/statistics/hypothesis.h"

#include <gtest/gtest.h>

#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>

#include "tests/results/examples.h"

namespace lra::stats {
namespace {

json fixture() {
  std::ifstream in(LRA_SOURCE_DIR "/tests/fixtures/statistics.json");
  return json::parse(in);
}

TEST(Hypothesis, McNemarEqualsStatsmodels) {
  const json cases = fixture()["mcnemar"];
  ASSERT_EQ(cases.size(), 7u);
  for (const json& c : cases) {
    const double p = c["p"];
    EXPECT_NEAR(mcnemar_p(c["only_a"], c["only_b"]), p, 1e-10 * p) << c;
  }
}

TEST(Hypothesis, FisherEqualsScipys) {
  const json cases = fixture()["fisher"];
  ASSERT_EQ(cases.size(), 7u);
  for (const json& c : cases) {
    const double p = c["p"];
    EXPECT_NEAR(fisher_p(c["a"], c["a_of"], c["b"], c["b_of"]), p, 1e-10 * p) << c;
  }
  EXPECT_EQ(fisher_p(0, 0, 2, 3), 1);
}

TEST(Hypothesis, RankSumEqualsScipys) {
  const json cases = fixture()["rank_sum"];
  ASSERT_EQ(cases.size(), 5u);
  for (const json& c : cases) {
    const double p = c["p"];
    EXPECT_NEAR(rank_sum_p(c["a"].get<std::vector<double>>(), c["b"].get<std::vector<double>>()), p,
                1e-10 * p)
        << c;
  }
  for (const json& c : cases) {
    EXPECT_NEAR(share_above(c["a"].get<std::vector<double>>(), c["b"].get<std::vector<double>>()),
                c["above"].get<double>(), 1e-12)
        << c;
  }
  EXPECT_EQ(rank_sum_p({}, std::vector<double>{1}), 1);
  EXPECT_EQ(share_above({}, std::vector<double>{1}), 0.5);
}

TEST(Hypothesis, WelchEqualsScipys) {
  const json cases = fixture()["welch"];
  ASSERT_EQ(cases.size(), 3u);
  for (const json& c : cases) {
    const WelchTest test =
        welch_test(c["a"].get<std::vector<double>>(), c["b"].get<std::vector<double>>());
    EXPECT_NEAR(test.p, c["p"].get<double>(), 1e-10) << c;
    EXPECT_NEAR(test.difference.low, c["low"].get<double>(), 1e-9) << c;
    EXPECT_NEAR(test.difference.high, c["high"].get<double>(), 1e-9) << c;
  }
}

TEST(Hypothesis, WelchWithTheSamplingOfExamples) {
  const json cases = fixture()["sampled_welch"];
  ASSERT_EQ(cases.size(), 3u);
  for (const json& c : cases) {
    const WelchTest test =
        welch_test(c["a"].get<std::vector<double>>(), c["b"].get<std::vector<double>>(),
                   {.variance = c["variance"], .freedom = c["freedom"]});
    EXPECT_NEAR(test.p, c["p"].get<double>(), 1e-10) << c;
    EXPECT_NEAR(test.difference.low, c["low"].get<double>(), 1e-9) << c;
    EXPECT_NEAR(test.difference.high, c["high"].get<double>(), 1e-9) << c;
  }
}

// Of two seeds a side, those of one side alike: their variance is often small by chance, and the
// examples' lends it a freedom that it has not.
TEST(Hypothesis, WelchOfTwoSeedsFindsNoDifferenceTooOften) {
  boost::random::mt19937_64 random(1);
  boost::random::normal_distribution<double> normal;
  constexpr int kTrials = 2'000;
  constexpr double kVariance = 0.02;
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const double shared = std::sqrt(kVariance) * normal(random);
    const std::vector<double> a{shared + normal(random), shared + normal(random)}, b{0, 0};
    found += welch_test(a, b, {.variance = kVariance, .freedom = 1999}).p < 0.05 ? 1 : 0;
  }
  EXPECT_LT(found, 0.05 * kTrials + 3 * std::sqrt(0.05 * 0.95 * kTrials));
}

TEST(Hypothesis, WelchOfSamplesThatDoNotVary) {
  const std::vector<double> two{2, 2}, three{3, 3};
  EXPECT_EQ(welch_test(two, two).p, 1);
  EXPECT_EQ(welch_test(two, three).p, 0);
  EXPECT_EQ(welch_test(two, three).difference.low, -1);
  EXPECT_EQ(error_text<std::exception>([&] { welch_test(two, std::vector<double>{1}); }),
            "a standard deviation needs at least 2 samples, not 1");
}

TEST(Hypothesis, HolmEqualsStatsmodels) {
  const json cases = fixture()["holm"];
  ASSERT_EQ(cases.size(), 4u);
  for (const json& c : cases) {
    const auto adjusted = holm(c["p"].get<std::vector<double>>());
    ASSERT_EQ(adjusted.size(), c["adjusted"].size());
    for (size_t i = 0; i < adjusted.size(); ++i)
      EXPECT_NEAR(adjusted[i], c["adjusted"][i].get<double>(), 1e-14) << c;
  }
  EXPECT_TRUE(holm({}).empty());
}

}  // namespace
}  // namespace lra::stats
