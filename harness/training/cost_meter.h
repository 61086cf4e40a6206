// What a run costs while it trains: time, memory, and how much others kept it waiting.
#pragma once

#include <chrono>
#include <optional>

#include "harness/training/checkpoint.h"

namespace lra {

class CostMeter {
 public:
  explicit CostMeter(torch::Device device) : device_(device) {}

  /// Counts from here on; earlier peaks are forgotten. They leave out data: what a GPU holds
  /// beyond `before`, its live bytes, is the training set; beside a CPU data are mapped from files
  /// but for `copied` bytes, of those that are read otherwise than they are stored.
  void begin(int64_t before, int64_t copied);
  /// Of the training set on a GPU, 2^20 bytes; nothing where it does not lie there.
  std::optional<double> data_mib() const;
  /// Seconds since begin() or the last count().
  double seconds() const;
  /// Adds the time, and the peak of training steps, since begin() or the last count().
  void count(TrainState& at);
  /// Raises `most` to the peak of live bytes since it was last taken.
  void take_peak(int64_t& most) const;

 private:
  using Clock = std::chrono::steady_clock;

  torch::Device device_;
  int64_t data_bytes_ = 0;
  Clock::time_point begin_ = Clock::now();
  std::optional<double> waited_;  // by this process's threads until then
};

}  // namespace lra
