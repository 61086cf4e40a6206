// The statistics behind the tables' intervals.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "results/statistics/interval.h"

namespace lra::stats {

/// Wilson's score interval of a proportion (Wilson 1927), as fractions. Throws std::runtime_error
/// unless 0 <= correct <= count and count >= 1.
Interval wilson_interval(int64_t correct, int64_t count, double confidence = 0.95);

/// The arithmetic mean; of at least one sample.
double mean(std::span<const double> samples);

/// The standard deviation with divisor n - 1; of at least two samples.
double standard_deviation(std::span<const double> samples);

/// Student's t interval of the mean; of at least two samples.
Interval student_interval(std::span<const double> samples, double confidence = 0.95);

/// The value below which a fraction `q` lies, interpolated linearly between order statistics (R's
/// type 7).
double quantile(std::span<const double> samples, double q);

struct MedianEstimate {
  double median = 0;
  double min = 0;
  double iqr = 0;       // quantile 0.75 - quantile 0.25
  Interval interval;    // two order statistics
  double coverage = 0;  // that the interval truly has; under `confidence` where the samples are too
                        // few (at 95 %: under 6)
};

/// The median with a distribution-free interval: the order statistics l and n + 1 - l with the
/// largest l for which the binomial (n, 1/2) leaves at most (1 - confidence) / 2 below; the range
/// of the samples where there is none.
MedianEstimate median_estimate(std::span<const double> samples, double confidence = 0.95);

}  // namespace lra::stats
