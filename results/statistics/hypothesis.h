// Tests of differences between runs, and their correction over a table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "results/records/predictions.h"
#include "results/records/records.h"

namespace lra {

/// The exact McNemar test (McNemar 1947; for classifiers Dietterich 1998): the two-sided binomial p
/// of so many examples that one of two runs alone gets right. 1 where there are none.
double mcnemar_p(int64_t only_a, int64_t only_b);

struct WelchTest {
  double p = 1;
  Interval difference;  // of mean(a) - mean(b)
};

/// Welch's t test of two means (Welch 1947), of at least two samples each. Where neither side
/// varies the interval is a point, and p is 1 or 0.
WelchTest welch_test(std::span<const double> a, std::span<const double> b,
                     double confidence = 0.95);

/// Holm's step-down adjustment (Holm 1979) of the p values of one family, in their order.
std::vector<double> holm(std::span<const double> p);

/// How two runs did on the same examples.
struct PairedCounts {
  int64_t both = 0, only_a = 0, only_b = 0, neither = 0;  // examples that are predicted rightly
};

/// Throws std::runtime_error where the labels differ: they are not the same examples.
PairedCounts paired_counts(const Predictions& a, const Predictions& b);

/// The percentile bootstrap interval (Efron 1979) of the difference of two sides' mean accuracies,
/// a - b, as fractions. Each resample draws examples, the same for both sides, and, of a side with
/// several runs, runs. The same predictions give the same interval. Throws std::runtime_error where
/// a side is empty or the examples differ.
Interval paired_bootstrap(std::span<const Predictions* const> a,
                          std::span<const Predictions* const> b, double confidence = 0.95,
                          int resamples = 10000);

}  // namespace lra
