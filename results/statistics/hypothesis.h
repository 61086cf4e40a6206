// Tests of differences between runs, and their correction over a table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "results/statistics/interval.h"

namespace lra::stats {

/// The exact McNemar test (McNemar 1947; for classifiers Dietterich 1998): the two-sided binomial p
/// of so many examples that one of two runs alone gets right. 1 where there are none.
double mcnemar_p(int64_t only_a, int64_t only_b);

/// Fisher's exact test (Fisher 1922) of two shares, `a` of `a_of` and `b` of `b_of`: the two-sided
/// p, summed over the tables of these margins that are no more probable. 1 where a side is empty.
double fisher_p(int64_t a, int64_t a_of, int64_t b, int64_t b_of);

/// The exact rank-sum test (Wilcoxon 1945; Mann & Whitney 1947) of two samples: the share of all
/// ways to divide the pooled values, of which equal ones have their mean rank, whose rank sum lies
/// as far from its mean. Holds whatever the distributions are. 1 where a side is empty.
double rank_sum_p(std::span<const double> a, std::span<const double> b);

/// What that test finds a difference of: the probability that one of a is above one of b, equal
/// ones counting half (Vargha & Delaney 2000). 1/2 where a side is empty.
double share_above(std::span<const double> a, std::span<const double> b);

/// The part of a difference's variance that comes of the examples that both sides were tested on.
struct SamplingError {
  double variance = 0;
  double freedom = 1;  // degrees of freedom of that estimate, at least 1
};

struct WelchTest {
  double p = 1;
  Interval difference;  // of mean(a) - mean(b)
};

/// Welch's t test of two means (Welch 1947), of at least two samples each, with the variance by
/// `examples` added to those of the samples, and its freedom to Satterthwaite's formula: samples
/// that share a test set hold nothing of its sampling. p is no smaller, and the interval no
/// narrower, than without that variance: it lends its freedom to the samples', of which two or
/// three may agree by chance. Where nothing varies the interval is a point, and p is 1 or 0.
WelchTest welch_test(std::span<const double> a, std::span<const double> b,
                     const SamplingError& examples = {});

/// Holm's step-down adjustment (Holm 1979) of the p values of one family, in their order.
std::vector<double> holm(std::span<const double> p);

}  // namespace lra::stats
