// Time and memory of a piece of work: warm-up, then samples until the median is known well enough.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "results/statistics.h"

namespace lra {

struct MeasureLimits {
  double seconds = 3;  // stop sampling after this long, warm-up apart
  double precision =
      0.02;  // or when the median's 95 % interval is within this fraction of it, to each side
  int64_t fewest = 3;  // samples, however long they take
  int64_t most = 1000;
};

struct Measurement {
  std::vector<double> samples;  // milliseconds
  MedianEstimate time;          // milliseconds
  int64_t peak_bytes = 0;       // highest sum of live tensor bytes above the start, over one call
};

/// Calls `work` (which leaves nothing alive but what it found) and waits for the device at each
/// end. The warm-up is two calls, and more until two in a row differ by less than 10 % or a third
/// of the time is spent; the memory is that of the second.
Measurement measure(const std::function<void()>& work, torch::Device device,
                    const MeasureLimits& limits);

}  // namespace lra
