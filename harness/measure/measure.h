// Time and memory of a piece of work: warm-up, then samples until the median is known well enough.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "attention_variants/torch.h"
#include "results/statistics/statistics.h"

namespace lra::measure {

struct MeasureLimits {
  double seconds = 3;  // stop sampling after this long, warm-up apart
  double precision =
      0.02;  // or when the median's bootstrap 95 % interval is within this part of it, to each side
  int64_t fewest = 3;           // samples, however long they take
  int64_t most = 1000;          // samples, once `least_seconds` are over
  double least_seconds = 0.05;  // of sampling, so that one short period does not decide
  int64_t flush_bytes = 0;      // of a GPU's cache, overwritten before each sample; 0 = off
};

struct Measurement {
  std::vector<double> samples;  // milliseconds
  stats::MedianEstimate time;   // milliseconds
  int64_t warm_up = 0;          // calls before the samples
  // Highest sum of live tensor bytes above the start, over one call; -1 where LibTorch cannot tell.
  int64_t peak_bytes = 0;
  std::optional<double> device_ms;  // median by the GPU's own events; absent on a CPU
};

/// Calls `work` (which leaves nothing alive but what it found) and waits for the device at each
/// end. The warm-up is two calls, and more until the last three lie within 5 % of each other or a
/// third of the time is spent since the first; the memory is that of the second call. Samples are
/// wall time.
Measurement measure(const std::function<void()>& work, torch::Device device,
                    const MeasureLimits& limits);

}  // namespace lra::measure
