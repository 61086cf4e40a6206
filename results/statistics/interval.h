// An interval of numbers, and a quantity with one.
#pragma once

#include <algorithm>
#include <cmath>

namespace lra::stats {

/// Of every interval by a formula; those by resampling end at the quantiles 0.025 and 0.975.
inline constexpr double kConfidence = 0.95;

struct Interval {
  double low = 0;
  double high = 0;
};

struct Estimate {
  double value = 0;
  Interval ci95;

  /// The interval's longer side, as a part of the value; 0 where the value is 0.
  double precision() const {
    return value == 0 ? 0 : std::max(ci95.high - value, value - ci95.low) / std::abs(value);
  }
};

}  // namespace lra::stats
