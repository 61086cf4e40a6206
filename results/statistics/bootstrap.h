// The statistics of memory and time tables: medians over passes, ratios, growth and crossings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "results/statistics/interval.h"

namespace lra::stats {

/// Of fewer samples the interval of a median is narrower than it is sure.
inline constexpr int64_t kFewestSamples = 6;

/// The median of samples that are taken one after the other, with a percentile bootstrap interval
/// (Efron 1979; 1,000 resamples of a fixed random sequence, so that the same samples give the same
/// interval). Throws std::runtime_error without samples.
Estimate bootstrap_median(std::span<const double> samples);

/// The median of the passes' medians, so that each counts the same however many samples it took.
/// The bootstrap draws passes, and samples within each: the interval holds what differs between
/// processes too. Throws std::runtime_error where a pass has no samples, or there is none.
Estimate median_over_passes(const std::vector<std::vector<double>>& passes);

/// a / b, both by median_over_passes and drawn independently of each other.
Estimate ratio_over_passes(const std::vector<std::vector<double>>& a,
                           const std::vector<std::vector<double>>& b);

/// The slope of log(value) on log(length) by least squares: 1 is linear growth, 2 quadratic; with
/// Student's interval where there are at least three points. Absent unless two lengths differ;
/// points that are not positive and finite are left out.
struct Growth {
  double exponent = 0;
  std::optional<Interval> ci95;
};
std::optional<Growth> growth(std::span<const double> lengths, std::span<const double> values);

/// From which length on one cost stays below another, both measured at `lengths` (rising).
struct Crossing {
  enum class Kind { always, from, never };
  Kind kind = Kind::never;
  double length = 0;  // `from`: interpolated between two lengths on logarithmic axes
};
Crossing crossing(std::span<const double> lengths, std::span<const double> costs,
                  std::span<const double> baseline);

}  // namespace lra::stats
