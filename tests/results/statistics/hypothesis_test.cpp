// Against scipy and statsmodels: tests/parity/make_statistics_fixtures.py wrote the fixtures.
#include "results/statistics/hypothesis.h"

#include <gtest/gtest.h>

#include "tests/results/examples.h"

namespace lra {
namespace {

json fixture() {
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

TEST(Hypothesis, McNemarEqualsStatsmodels) {
  const json cases = fixture()["mcnemar"];
  ASSERT_EQ(cases.size(), 7u);
  for (const json& c : cases) {
    const double p = c["p"];
    EXPECT_NEAR(mcnemar_p(c["only_a"], c["only_b"]), p, 1e-10 * p) << c;
  }
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

TEST(Hypothesis, WelchOfSamplesThatDoNotVary) {
  const std::vector<double> two{2, 2}, three{3, 3};
  EXPECT_EQ(welch_test(two, two).p, 1);
  EXPECT_EQ(welch_test(two, three).p, 0);
  EXPECT_EQ(welch_test(two, three).difference.low, -1);
  EXPECT_EQ(message_of([&] { welch_test(two, std::vector<double>{1}); }),
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

TEST(Hypothesis, TheBootstrapOfTwoRunsEqualsItsExactDistribution) {
  const json cases = fixture()["exact_bootstrap"];
  ASSERT_EQ(cases.size(), 4u);
  for (const json& c : cases) {
    const int64_t only_a = c["only_a"], only_b = c["only_b"], count = c["count"];
    const auto ones = [](int64_t n) { return std::string(static_cast<size_t>(n), '1'); };
    const auto zeros = [](int64_t n) { return std::string(static_cast<size_t>(n), '0'); };
    const int64_t rest = count - only_a - only_b;
    const Predictions a = from_text(ones(only_a) + zeros(only_b) + ones(rest)),
                      b = from_text(zeros(only_a) + ones(only_b) + ones(rest));
    const Predictions *of_a = &a, *of_b = &b;
    const Interval ci = paired_bootstrap({&of_a, 1}, {&of_b, 1});
    // The quantile of 10,000 draws is off by some 2.7 % of the standard deviation (of a normal:
    // sqrt(q (1 - q) / 10,000) / density), which three times that allows for, and a step.
    const double n = static_cast<double>(count);
    const double sd = std::sqrt(static_cast<double>(only_a + only_b)) / n;
    EXPECT_NEAR(ci.low, c["low"].get<double>(), 0.08 * sd + 1 / n) << c;
    EXPECT_NEAR(ci.high, c["high"].get<double>(), 0.08 * sd + 1 / n) << c;
  }
}

TEST(Hypothesis, TheBootstrapOfSeveralRunsDrawsRunsToo) {
  const json cases = fixture()["drawn_bootstrap"];
  ASSERT_EQ(cases.size(), 2u);
  for (const json& c : cases) {
    std::vector<Predictions> runs_a, runs_b;
    for (const json& text : c["a"]) runs_a.push_back(from_text(text));
    for (const json& text : c["b"]) runs_b.push_back(from_text(text));
    std::vector<const Predictions*> a, b;
    for (const Predictions& run : runs_a) a.push_back(&run);
    for (const Predictions& run : runs_b) b.push_back(&run);
    const double low = c["low"], high = c["high"];
    const Interval ci = paired_bootstrap(a, b);
    EXPECT_NEAR(ci.low, low, 0.02 * (high - low)) << c["low"];
    EXPECT_NEAR(ci.high, high, 0.02 * (high - low)) << c["high"];
    const Interval again = paired_bootstrap(a, b);
    EXPECT_EQ(ci.low, again.low);
    EXPECT_EQ(ci.high, again.high);
  }
}

TEST(Hypothesis, PairedCountsAreOfTheSameExamplesAlone) {
  const PairedCounts counts = paired_counts(from_text("1110000"), from_text("1001100"));
  EXPECT_EQ(counts.both, 1);
  EXPECT_EQ(counts.only_a, 2);
  EXPECT_EQ(counts.only_b, 2);
  EXPECT_EQ(counts.neither, 2);
  Predictions other = from_text("11");
  other.labels[0] = 3;
  const Predictions plain = from_text("11");
  const Predictions *a = &plain, *b = &other;
  EXPECT_EQ(message_of([&] { paired_counts(plain, other); }),
            "a paired comparison needs predictions of the same examples");
  EXPECT_EQ(message_of([&] {
              paired_bootstrap({&a, 1}, {&b, 1});
            }),
            "a paired bootstrap needs predictions of the same examples");
  EXPECT_EQ(message_of([&] {
              paired_bootstrap({}, {&b, 1});
            }),
            "a paired bootstrap needs a run and an example on each side");
}

TEST(Predictions, AreReadWithAndWithoutConfidence) {
  const Predictions plain = parse_predictions("index,label,predicted\n0,4,0\n1,6,6\r\n2,4,4");
  EXPECT_EQ(plain.size(), 3);
  EXPECT_EQ(plain.correct(), 2);
  EXPECT_EQ(plain.classes(), (std::vector<int32_t>{4, 6}));
  EXPECT_TRUE(plain.confidence.empty());
  const Predictions confident =
      parse_predictions("index,label,predicted,confidence\n0,1,2,0.75\n1,0,0,1\n");
  EXPECT_EQ(confident.confidence, (std::vector<float>{0.75f, 1.0f}));
}

TEST(Predictions, NameTheLineThatIsWrong) {
  const auto reason = [](const std::string& text) {
    return message_of([&] { parse_predictions(text); });
  };
  const std::string plain = "index,label,predicted\n",
                    confident = "index,label,predicted,confidence\n";
  EXPECT_EQ(reason("a,b\n"),
            "line 1: should be 'index,label,predicted' or 'index,label,predicted,confidence', not "
            "\"a,b\"");
  EXPECT_EQ(reason(plain), "holds no predictions");
  EXPECT_EQ(reason(""), "holds no predictions");
  EXPECT_EQ(reason(plain + "0,1\n"),
            "line 2: should be index 0, a label, a prediction, not \"0,1\"");
  EXPECT_EQ(reason(confident + "0,1,1,nan\n"),
            "line 2: should be index 0, a label, a prediction and a confidence from 0 to 1, not "
            "\"0,1,1,nan\"");
  for (const char* line :
       {"2,1,1", "0,-1,1", "0,1,1,", "0,1,1,0.5", "0,1,1 ", "", "0,99999999999,1", "0,<script>,1"})
    EXPECT_TRUE(reason(plain + "0,1,1\n" + line + "\n").starts_with("line 3: should be index 1"))
        << line;
  EXPECT_TRUE(reason(plain + "0,1,1\n0,1,1\n").starts_with("line 3: ")) << "an index twice";
}

}  // namespace
}  // namespace lra
