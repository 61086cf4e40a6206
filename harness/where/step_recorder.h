// The time that each operator of a model's steps takes, as LibTorch's observers see it
// (ATen/record_function.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "attention_variants/torch.h"
#include "results/where/record.h"

namespace lra::where {

/// What an operator took in one part of the model, over all recorded steps, without the operators
/// that it calls: those stand by themselves.
struct OpSum {
  int64_t calls = 0;
  std::chrono::nanoseconds time{0};
  // Of the calls; -1 once that of one is not known.
  double flops = 0, bytes = 0;
};

/// Records while it lives; one at a time in a process. Parts of the model are the outermost user
/// scopes (RECORD_USER_SCOPE). An operator of a backward pass is of the part in which its forward
/// one ran, which its number in autograd's sequence tells. On a GPU the device is waited for
/// before and after each operator: times are its own, and steps take longer.
class StepRecorder {
 public:
  using Clock = std::chrono::steady_clock;
  using Key = std::tuple<WorkKind, std::string, std::string, StepPass>;  // op, part

  explicit StepRecorder(torch::Device device);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Runs a step and adds what it does to the sums.
  void record(const std::function<void()>& step);

  int64_t steps() const { return steps_; }
  /// Of all recorded steps: from begin to end, and of that what the recording took.
  std::chrono::nanoseconds total() const { return total_; }
  std::chrono::nanoseconds recording() const { return recording_; }
  const std::map<Key, OpSum>& sums() const { return sums_; }

 private:
  struct Frame;
  // Nodes [begin, end) of autograd's sequence, which a part or an own operator made.
  struct Made {
    uint64_t begin = 0, end = 0;
    std::string part, op;  // op "": a part
    WorkKind kind = WorkKind::other;
    double flops = -1;
  };

  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext* context);
  void describe(const at::RecordFunction& function, Frame& frame);
  void describe_node(const at::RecordFunction& function, Frame& frame);
  void finish(const at::RecordFunction& function, Frame& frame, Clock::time_point ended);
  Made* maker_of(int64_t number, bool operators);

  const torch::Device device_;
  at::CallbackHandle handle_;
  std::mutex mutex_;        // the backward pass of a GPU has a thread of its own
  std::vector<Made> made_;  // in this step, inner ones first
  std::map<Key, OpSum> sums_;
  int64_t steps_ = 0;
  std::chrono::nanoseconds total_{0}, recording_{0};
};

}  // namespace lra::where
