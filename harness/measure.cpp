#include "harness/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/memory.h"
#include "harness/runtime.h"
#include "harness/signals.h"

namespace lra {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

Measurement measure(const std::function<void()>& work, torch::Device device,
                    const MeasureLimits& limits) {
  const auto timed = [&] {
    if (stop_requested()) throw Interrupted("stopped while measuring");
    synchronize(device);
    const auto begin = Clock::now();
    work();
    synchronize(device);
    return milliseconds_since(begin);
  };

  Measurement result;
  const auto warm_up = Clock::now();
  double before = timed();
  const int64_t start = live_bytes(device);
  reset_peak_bytes(device);
  double now = timed();
  result.peak_bytes = peak_bytes(device) - start;
  while (std::abs(now - before) > 0.1 * before &&
         milliseconds_since(warm_up) < 1000 * limits.seconds / 3) {
    before = now;
    now = timed();
  }

  const auto begin = Clock::now();
  const auto enough = [&] {
    const auto count = static_cast<int64_t>(result.samples.size());
    if (count < limits.fewest) return false;
    if (count >= limits.most || milliseconds_since(begin) > 1000 * limits.seconds) return true;
    if (count % 5 != 0) return false;  // the estimate sorts: not after every sample
    const MedianEstimate m = median_estimate(result.samples);
    const double half = std::max(m.interval.high - m.median, m.median - m.interval.low);
    return m.coverage >= 0.95 && half <= limits.precision * m.median;
  };
  do {
    result.samples.push_back(timed());
  } while (!enough());
  result.time = median_estimate(result.samples);
  return result;
}

}  // namespace lra
