#include "harness/measure/measure.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "results/statistics/bootstrap.h"

namespace lra::measure {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// A GPU's own clock around a piece of work; nothing on a CPU.
class DeviceTimer {
 public:
  explicit DeviceTimer(torch::Device device) : device_(device) {
    if (device.is_cpu()) return;
    begin_ = std::make_unique<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    end_ = std::make_unique<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  }
  void start() { record(begin_.get()); }
  void stop() { record(end_.get()); }
  /// After the device has been waited for.
  void take() {
    if (begin_ != nullptr) samples_.push_back(begin_->elapsedTime(*end_));
  }
  std::optional<double> median() const {
    if (samples_.empty()) return std::nullopt;
    return stats::quantile(samples_, 0.5);
  }

 private:
  void record(c10::Event* event) {
    if (event != nullptr)
      event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }

  torch::Device device_;
  std::unique_ptr<c10::Event> begin_, end_;  // null on a CPU
  std::vector<double> samples_;
};

}  // namespace

Measurement measure(const std::function<void()>& work, torch::Device device,
                    const MeasureLimits& limits) {
  DeviceTimer timer(device);
  torch::Tensor flushed;
  if (limits.flush_bytes > 0 && !device.is_cpu())
    flushed = torch::empty({limits.flush_bytes},
                           torch::TensorOptions().dtype(torch::kByte).device(device));
  const auto timed = [&] {
    if (host::stop_requested()) throw host::Interrupted("stopped while measuring");
    if (flushed.defined()) flushed.zero_();
    host::synchronize(device);
    const auto begin = Clock::now();
    timer.start();
    work();
    timer.stop();
    host::synchronize(device);
    return milliseconds_since(begin);
  };

  Measurement result;
  std::vector<double> calls = {timed()};
  const auto warm_up = Clock::now();  // the first call's loading of kernels is no warm-up
  const int64_t start = host::live_bytes(device);
  host::reset_peak_bytes(device);
  calls.push_back(timed());
  result.peak_bytes = host::peak_bytes_above(start, device);
  const auto stable = [&] {
    if (calls.size() < 3) return false;
    const auto [low, high] = std::minmax_element(calls.end() - 3, calls.end());
    return *high <= 1.05 * *low;
  };
  while (!stable() && milliseconds_since(warm_up) < 1000 * limits.seconds / 3)
    calls.push_back(timed());
  result.warm_up = static_cast<int64_t>(calls.size());

  const auto begin = Clock::now();
  int64_t next_look = std::max<int64_t>(limits.fewest, stats::kFewestSamples);
  const auto enough = [&] {
    const auto count = static_cast<int64_t>(result.samples.size());
    const double seconds = milliseconds_since(begin) / 1000;
    if (count < limits.fewest) return false;
    if (seconds > limits.seconds) return true;
    if (seconds < limits.least_seconds) return false;
    if (count >= limits.most) return true;
    if (count < next_look) return false;
    next_look = count + (count + 3) / 4;  // a look costs as much as a thousand medians
    return stats::bootstrap_median(result.samples).precision() <= limits.precision;
  };
  do {
    result.samples.push_back(timed());
    timer.take();
  } while (!enough());
  result.time = stats::median_estimate(result.samples);
  result.device_ms = timer.median();
  return result;
}

}  // namespace lra::measure
