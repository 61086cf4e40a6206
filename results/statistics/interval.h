// An interval of numbers, and a quantity with one.
#pragma once

namespace lra::stats {

/// Of every interval here.
inline constexpr double kConfidence = 0.95;

struct Interval {
  double low = 0;
  double high = 0;
};

struct Estimate {
  double value = 0;
  Interval ci95;

  /// The interval's longer side, as a part of the value; 0 where the value is 0.
  double precision() const;
};

}  // namespace lra::stats
