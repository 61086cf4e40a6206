#include "harness/training/cost_meter.h"

#include <algorithm>

#include "harness/host/memory.h"
#include "harness/measure/machine_watch.h"

namespace lra {
namespace {

std::optional<double> waited_seconds() {
  const std::optional<measure::ReadySeconds> ready = measure::ready_seconds();
  return ready ? std::optional(ready->waited) : std::nullopt;
}

}  // namespace

void CostMeter::begin(int64_t before, int64_t copied) {
  data_bytes_ = device_.is_cpu() ? copied : host::live_bytes(device_) - before;
  host::reset_peak_bytes(device_);
  begin_ = Clock::now();
  waited_ = waited_seconds();
}

std::optional<double> CostMeter::data_mib() const {
  if (data_bytes_ <= 0 || device_.is_cpu()) return std::nullopt;
  return static_cast<double>(data_bytes_) / host::kMiB;
}

double CostMeter::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

void CostMeter::count(TrainState& at) {
  at.seconds += seconds();
  begin_ = Clock::now();
  const std::optional<double> waited = waited_seconds();
  if (!waited || !waited_) {
    at.waited_seconds = kNotMeasured;
  } else if (at.waited_seconds != kNotMeasured) {
    at.waited_seconds += std::max(*waited - *waited_, 0.0);
  }
  waited_ = waited;
  take_peak(at.peak_bytes);
}

void CostMeter::take_peak(int64_t& most) const {
  most = std::max(most, host::peak_bytes(device_) - data_bytes_);
  host::reset_peak_bytes(device_);
}

}  // namespace lra
