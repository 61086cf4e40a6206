// The statistics behind the tables' intervals.
#pragma once

#include <cstdint>
#include <span>

#include "results/statistics/interval.h"

namespace lra::stats {

/// Wilson's score interval of a proportion (Wilson 1927), as fractions. Throws std::runtime_error
/// unless 0 <= correct <= count and count >= 1.
Interval wilson_interval(int64_t correct, int64_t count);

/// The same of a fraction that need not be a whole number of the `count` examples.
Interval wilson_of_fraction(double fraction, int64_t count);

/// Examples that are not independent, as the labelled positions of one sample.
struct Cluster {
  int64_t correct = 0, count = 0;
};

/// Wilson's interval of the fraction of correct examples at its effective number of examples (Korn
/// and Graubard 1998): p (1 - p) over the variance of the fraction among clusters, at most the
/// number of examples, and the number of clusters where they do not vary. Throws std::runtime_error
/// without an example.
Interval clustered_interval(std::span<const Cluster> clusters);

/// The arithmetic mean; of at least one sample.
double mean(std::span<const double> samples);

/// The standard deviation with divisor n - 1; of at least two samples.
double standard_deviation(std::span<const double> samples);

/// Student's t interval of the mean; of at least two samples.
Interval student_interval(std::span<const double> samples);

/// The interval of the mean accuracy of at least two seeds that were all tested on the same `count`
/// examples, as fractions. Seeds share the test set, so that their spread holds nothing of its
/// sampling (Bouthillier et al., MLSys 2021): on each side the variance of their mean and that of
/// Wilson's interval of it on `count` examples are added, with freedom by Satterthwaite's formula.
/// No narrower than Student's interval over the seeds, which holds where few seeds agree by chance.
Interval seeds_interval(std::span<const double> fractions, int64_t count);

/// To 1e-12: equal sums, added up in another order, are one mean.
double settled(double mean);

/// The mean of independent estimates, with the interval that follows from theirs (MOVER: Zou and
/// Donner 2008, after Newcombe 1998). Throws std::runtime_error without an estimate.
Estimate mean_of_independent(std::span<const Estimate> estimates);

/// The value below which a fraction `q` lies, interpolated linearly between order statistics (R's
/// type 7).
double quantile(std::span<const double> samples, double q);

struct MedianEstimate {
  double median = 0;
  double min = 0;
  double iqr = 0;     // quantile 0.75 - quantile 0.25
  Interval interval;  // two order statistics; at 95 % under 6 samples are too few for it
};

/// The median with a distribution-free interval: the order statistics l and n + 1 - l with the
/// largest l for which the binomial (n, 1/2) leaves at most (1 - kConfidence) / 2 below; the range
/// of the samples where there is none.
MedianEstimate median_estimate(std::span<const double> samples);

}  // namespace lra::stats
