// An interval of numbers.
#pragma once

namespace lra::stats {

struct Interval {
  double low = 0;
  double high = 0;
};

}  // namespace lra::stats
