// Against the exact distributions: tests/parity/make_statistics_fixtures.py wrote the fixtures.
#include "results/analysis/paired.h"

#include <gtest/gtest.h>

#include "tests/results/examples.h"

namespace lra {
namespace {

json paired_fixture() {
  std::ifstream in(LRA_SOURCE_DIR "/tests/fixtures/statistics.json");
  return json::parse(in);
}

// Right where the text has a 1.
Predictions from_text(const std::string& right) {
  Predictions result;
  for (const char c : right) {
    result.labels.push_back(1);
    result.predicted.push_back(c == '1' ? 1 : 0);
  }
  return result;
}

TEST(Paired, TheBootstrapOfTwoRunsEqualsItsExactDistribution) {
  const json cases = paired_fixture()["exact_bootstrap"];
  ASSERT_EQ(cases.size(), 4u);
  for (const json& c : cases) {
    const int64_t only_a = c["only_a"], only_b = c["only_b"], count = c["count"];
    const auto ones = [](int64_t n) { return std::string(static_cast<size_t>(n), '1'); };
    const auto zeros = [](int64_t n) { return std::string(static_cast<size_t>(n), '0'); };
    const int64_t rest = count - only_a - only_b;
    const Predictions a = from_text(ones(only_a) + zeros(only_b) + ones(rest)),
                      b = from_text(zeros(only_a) + ones(only_b) + ones(rest));
    const Predictions *of_a = &a, *of_b = &b;
    const stats::Interval ci = paired_bootstrap({&of_a, 1}, {&of_b, 1});
    // The quantile of 10,000 draws is off by some 2.7 % of the standard deviation (of a normal:
    // sqrt(q (1 - q) / 10,000) / density), which three times that allows for, and a step.
    const double n = static_cast<double>(count);
    const double sd = std::sqrt(static_cast<double>(only_a + only_b)) / n;
    EXPECT_NEAR(ci.low, c["low"].get<double>(), 0.08 * sd + 1 / n) << c;
    EXPECT_NEAR(ci.high, c["high"].get<double>(), 0.08 * sd + 1 / n) << c;
  }
}

// Eight positions of a sample that all are right or wrong together say no more than one.
TEST(Paired, TheBootstrapOfPositionsDrawsSamples) {
  const std::string a = "1101111010", b = "1100101010";
  Predictions one_a = from_text(a), one_b = from_text(b), all_a, all_b;
  for (size_t sample = 0; sample < a.size(); ++sample) {
    for (int position = 0; position < 8; ++position) {
      for (const auto& [all, text] : {std::pair{&all_a, &a}, {&all_b, &b}}) {
        all->labels.push_back(1);
        all->predicted.push_back((*text)[sample] == '1' ? 1 : 0);
        all->samples.push_back(static_cast<int32_t>(sample));
        all->positions.push_back(position);
      }
    }
  }
  const auto interval = [](const Predictions& x, const Predictions& y) {
    const Predictions *of_x = &x, *of_y = &y;
    return paired_bootstrap({&of_x, 1}, {&of_y, 1});
  };
  const stats::Interval expected = interval(one_a, one_b), found = interval(all_a, all_b);
  EXPECT_NEAR(found.low, expected.low, 0.101);  // a step of one sample in ten
  EXPECT_NEAR(found.high, expected.high, 0.101);
  all_a.samples.clear();
  all_b.samples.clear();
  const stats::Interval independent = interval(all_a, all_b);
  EXPECT_LT(independent.high - independent.low, 0.6 * (found.high - found.low));
  all_a.samples.assign(all_a.labels.size(), 0);
  EXPECT_THROW(interval(all_a, all_b), std::runtime_error) << "other samples";
}

TEST(Paired, TheBootstrapOfSeveralRunsDrawsExamples) {
  const json cases = paired_fixture()["drawn_bootstrap"];
  ASSERT_EQ(cases.size(), 2u);
  for (const json& c : cases) {
    std::vector<Predictions> runs_a, runs_b;
    for (const json& text : c["a"]) runs_a.push_back(from_text(text));
    for (const json& text : c["b"]) runs_b.push_back(from_text(text));
    std::vector<const Predictions*> a, b;
    for (const Predictions& run : runs_a) a.push_back(&run);
    for (const Predictions& run : runs_b) b.push_back(&run);
    const double low = c["low"], high = c["high"];
    const stats::Interval ci = paired_bootstrap(a, b);
    EXPECT_NEAR(ci.low, low, 0.02 * (high - low)) << c["low"];
    EXPECT_NEAR(ci.high, high, 0.02 * (high - low)) << c["high"];
    const stats::Interval again = paired_bootstrap(a, b);
    EXPECT_EQ(ci.low, again.low);
    EXPECT_EQ(ci.high, again.high);
    const stats::SamplingError sampling = paired_sampling(a, b);
    EXPECT_NEAR(sampling.variance, c["variance"].get<double>(), 1e-12);
    EXPECT_EQ(sampling.freedom, static_cast<double>(a[0]->size() - 1));
    const auto samples = c["samples"].get<std::vector<int32_t>>();
    for (std::vector<Predictions>* side : {&runs_a, &runs_b}) {
      for (Predictions& run : *side) run.samples = samples;
    }
    const stats::SamplingError clustered = paired_sampling(a, b);
    EXPECT_NEAR(clustered.variance, c["clustered_variance"].get<double>(), 1e-12);
    EXPECT_EQ(clustered.freedom, c["clusters"].get<double>() - 1);
  }
}

// Of the same examples the difference varies less than of two test sets of their size.
TEST(Paired, SamplingOfResultsIsPairedWherePredictionsAre) {
  const auto first = [](int64_t correct) {
    return with_predictions(example_result(), 1000, [=](int64_t i) { return i < correct; });
  };
  Result a = first(400), b = first(380);
  const Result* of_a = &a;
  const Result* of_b = &b;
  const Predictions* predictions_a = a.predictions.get();
  const Predictions* predictions_b = b.predictions.get();
  const auto found = [&] { return sampling_error({&of_a, 1}, {&of_b, 1}); };
  const double paired = found().variance;
  EXPECT_EQ(paired, paired_sampling({&predictions_a, 1}, {&predictions_b, 1}).variance);
  EXPECT_NEAR(paired, (0.02 - 0.02 * 0.02) / 999, 1e-12);  // 20 of 1000 differ
  b.predictions = nullptr;
  const stats::SamplingError apart = found();
  EXPECT_NEAR(apart.variance, 0.4 * 0.6 / 1000 + 0.38 * 0.62 / 1000, 1e-5);
  EXPECT_EQ(apart.freedom, 999);
  b.test = Accuracy{.accuracy = 1, .correct = 50, .count = 50, .ci95 = {}};
  EXPECT_GT(found().variance, apart.variance);
  EXPECT_EQ(found().freedom, 49);
}

TEST(Paired, DifferingCountsSamplesOfPositionsOnce) {
  Predictions a, b;
  a.labels = b.labels = {0, 0, 0, 0, 0, 0};
  a.predicted = {0, 0, 0, 1, 0, 2};
  b.predicted = {1, 1, 0, 0, 0, 1};  // the last is wrong in both
  EXPECT_EQ(differing(a, b), 3);
  a.samples = b.samples = {4, 4, 4, 5, 6, 6};
  EXPECT_EQ(differing(a, b), 2);
  EXPECT_EQ(differing(a, a), 0);
}

TEST(Paired, PairedCountsAreOfTheSameExamplesAlone) {
  const PairedCounts counts = paired_counts(from_text("1110000"), from_text("1001100"));
  EXPECT_EQ(counts.both, 1);
  EXPECT_EQ(counts.only_a, 2);
  EXPECT_EQ(counts.only_b, 2);
  EXPECT_EQ(counts.neither, 2);
  Predictions other = from_text("11");
  other.labels[0] = 3;
  const Predictions plain = from_text("11");
  const Predictions *a = &plain, *b = &other;
  EXPECT_EQ(error_text<std::exception>([&] { paired_counts(plain, other); }),
            "a paired comparison needs predictions of the same examples");
  EXPECT_EQ(error_text<std::exception>([&] {
              paired_bootstrap({&a, 1}, {&b, 1});
            }),
            "a paired comparison needs predictions of the same examples");
  EXPECT_EQ(error_text<std::exception>([&] {
              paired_bootstrap({}, {&b, 1});
            }),
            "a paired comparison needs a run and an example on each side");
}

}  // namespace
}  // namespace lra
