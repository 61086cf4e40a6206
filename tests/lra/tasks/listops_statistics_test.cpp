// The generator against 10,000 samples of LRA's own: two-sample tests on everything that a tree is
// made of.
//
// Each statistic is tested two-sided at 1e-3 divided by the number of statistics (Bonferroni), so
// that a correct generator under a random seed fails once in a thousand; the seed here is fixed.
// Wrong generators must fail the same tests.
#include <gtest/gtest.h>

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <map>

#include "attention_variants/base/files.h"
#include "lra/tasks/listops/listops.h"

namespace lra::listops {
namespace {

const char* const kReference = LRA_SOURCE_DIR "/tests/reference/listops_stats.json";
constexpr int64_t kSamples = 20'000;

using Counts = std::map<std::string, std::vector<double>>;  // statistic -> count of each outcome

void add(Counts& counts, const std::string& name, size_t outcomes, size_t outcome) {
  std::vector<double>& cells = counts[name];
  cells.resize(outcomes);
  ++cells.at(outcome);
}

// Arguments of each operator, the root's first.
std::vector<size_t> argument_counts(const std::vector<uint16_t>& ids) {
  std::vector<size_t> counts, open;
  for (const uint16_t id : ids) {
    if (id == kClose) {
      open.pop_back();
      continue;
    }
    if (!open.empty()) ++counts[open.back()];
    if (is_operator(id)) {
      open.push_back(counts.size());
      counts.push_back(0);
    }
  }
  return counts;
}

struct Observed {
  Counts counts;
  double drawn = 0;  // trees drawn in all
  std::vector<double> lengths, operators;
};

// `wrong_share` of the trees are drawn with `wrong`.
Observed observe(const TreeOptions& wrong, double wrong_share) {
  Observed result;
  std::vector<uint16_t> tree;
  const TreeOptions right;
  for (uint64_t i = 0; static_cast<int64_t>(result.lengths.size()) < kSamples; ++i) {
    CounterRandom random(/*seed=*/1, i);
    ++result.drawn;
    const bool use_wrong = i % 100 < wrong_share * 100;
    if (!draw_tree(random, use_wrong ? wrong : right, tree)) continue;
    const auto label = static_cast<size_t>(evaluate(tree));
    const auto root = static_cast<size_t>(tree[0] - kMin);
    const std::vector<size_t> arguments = argument_counts(tree);
    add(result.counts, "label", 10, label);
    add(result.counts, "label under " + std::string(kTokens[tree[0]]), 10, label);
    add(result.counts, "length", 15, (tree.size() - 500) / 100);
    add(result.counts, "root operator", 4, root);
    add(result.counts, "root arguments", 9, arguments[0] - 2);
    for (const size_t count : arguments) add(result.counts, "arguments", 9, count - 2);
    for (const uint16_t id : tree) {
      if (is_operator(id)) add(result.counts, "operator", 4, static_cast<size_t>(id - kMin));
      if (is_digit(id)) add(result.counts, "digit", 10, static_cast<size_t>(id - kZero));
    }
    result.lengths.push_back(static_cast<double>(tree.size()));
    result.operators.push_back(static_cast<double>(arguments.size()));
  }
  return result;
}

Counts reference_counts(const json& stats) {
  const double n = stats["n"];
  const double operators = stats["n_ops"]["mean"].get<double>() * n;
  const double digits = stats["length_tokens"]["mean"].get<double>() * n - 2 * operators;
  Counts counts;
  const auto fill = [&](const std::string& name, const json& fractions, double total, size_t first,
                        size_t last) {
    for (size_t i = first; i <= last; ++i) {
      counts[name].push_back(std::round(fractions.at(std::to_string(i)).get<double>() * total));
    }
  };
  fill("label", stats["label_frac"], n, 0, 9);
  fill("digit", stats["digit_frac"], digits, 0, 9);
  fill("arguments", stats["args_per_op_frac"], operators, 2, 10);
  fill("root arguments", stats["root_args_counts"], 1, 2, 10);
  for (const json& count : stats["length_hist_100"]) counts["length"].push_back(count);
  for (const uint16_t op : {kMin, kMax, kMed, kSum}) {
    const std::string name(kTokens[op]);
    const double roots = stats["root_op_frac"][name].get<double>() * n;
    counts["root operator"].push_back(std::round(roots));
    counts["operator"].push_back(std::round(stats["op_frac"][name].get<double>() * operators));
    fill("label under " + name, stats["label_by_root_op"][name], roots, 0, 9);
  }
  return counts;
}

// The p-value of Pearson's test that two lists of counts come from one distribution; outcomes of
// fewer than 10 in all are pooled.
double homogeneity(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<std::pair<double, double>> cells;
  std::pair<double, double> rare{0, 0};
  double total_a = 0, total_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    total_a += a[i];
    total_b += b[i];
    if (a[i] + b[i] >= 10) {
      cells.emplace_back(a[i], b[i]);
    } else {
      rare = {rare.first + a[i], rare.second + b[i]};
    }
  }
  if (rare.first + rare.second > 0) cells.push_back(rare);
  double chi2 = 0;
  for (const auto& [x, y] : cells) {
    const double share = (x + y) / (total_a + total_b);
    chi2 += std::pow(x - share * total_a, 2) / (share * total_a) +
            std::pow(y - share * total_b, 2) / (share * total_b);
  }
  return cdf(complement(boost::math::chi_squared(static_cast<double>(cells.size() - 1)), chi2));
}

double upper_tail(double z) { return cdf(complement(boost::math::normal(), z)); }

// p-value (upper tail) of each statistic.
std::map<std::string, double> p_values(const Observed& ours, const json& stats) {
  std::map<std::string, double> p;
  for (const auto& [name, counts] : reference_counts(stats))
    p[name] = homogeneity(ours.counts.at(name), counts);
  const double n = stats["n"];
  const auto mean_test = [&](const std::string& name, const std::vector<double>& values,
                             const json& reference) {
    double mean = 0, square = 0;
    for (const double v : values) mean += v / static_cast<double>(values.size());
    for (const double v : values)
      square += std::pow(v - mean, 2) / static_cast<double>(values.size());
    const double error = std::sqrt(square / static_cast<double>(values.size()) +
                                   std::pow(reference["std"].get<double>(), 2) / n);
    p[name] = upper_tail((mean - reference["mean"].get<double>()) / error);
  };
  mean_test("mean length", ours.lengths, stats["length_tokens"]);
  mean_test("mean operators", ours.operators, stats["n_ops"]);
  const json& drawn = stats["trees_drawn_per_accepted"];
  const double error = drawn["std"].get<double>() * std::sqrt(1 / n + 1.0 / kSamples);
  p["trees drawn"] = upper_tail((ours.drawn / kSamples - drawn["mean"].get<double>()) / error);
  return p;
}

// The statistics that tell ours from the reference.
std::string rejected(const Observed& ours, const json& stats) {
  const std::map<std::string, double> p = p_values(ours, stats);
  const double tail = 1e-3 / static_cast<double>(p.size()) / 2;
  std::string names;
  for (const auto& [name, value] : p) {
    if (value < tail || value > 1 - tail) names += name + " (p " + std::to_string(value) + "), ";
  }
  return names;
}

class ListOpsStatistics : public ::testing::Test {
 protected:
  const json stats_ = read_json(kReference);
};

TEST_F(ListOpsStatistics, AgreeWithTheReferenceGenerator) {
  const Observed ours = observe({}, 0);
  EXPECT_EQ(rejected(ours, stats_), "");
  for (const auto& [name, p] : p_values(ours, stats_)) RecordProperty(name, std::to_string(p));
}

// What follows shows that the test above could have failed.
TEST_F(ListOpsStatistics, SeeAnOperatorFavouredInATenthOfTheTrees) {
  EXPECT_NE(
      rejected(observe({.operators = {kMin, kMin, kMed, kSum}}, 0.1), stats_).find("operator"),
      std::string::npos);
}

TEST_F(ListOpsStatistics, SeeOperatorsOnePercentMoreOften) {
  EXPECT_NE(rejected(observe({.operator_chance = 0.26}, 1), stats_), "");
}

TEST_F(ListOpsStatistics, SeeOneArgumentFewer) {
  EXPECT_NE(rejected(observe({.max_args = 9}, 0.2), stats_).find("arguments"), std::string::npos);
}

TEST_F(ListOpsStatistics, SeeOneLevelFewer) {
  EXPECT_NE(rejected(observe({.max_depth = 9}, 1), stats_), "");
}

// Digits unevenly likely, and values of the wrong kind.
TEST_F(ListOpsStatistics, SeeSkewedDigitsAndShiftedLabels) {
  Observed ours = observe({}, 0);
  std::vector<double>& digits = ours.counts["digit"];
  digits[9] *= 0.99;
  std::vector<double>& labels = ours.counts["label"];
  std::rotate(labels.begin(), labels.begin() + 1, labels.end());
  const std::string names = rejected(ours, stats_);
  EXPECT_NE(names.find("digit"), std::string::npos);
  EXPECT_NE(names.find("label (p"), std::string::npos);
}

}  // namespace
}  // namespace lra::listops
