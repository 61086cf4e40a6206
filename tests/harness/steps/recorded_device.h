// A device that computes on the host's memory and tells what it was asked, in place of a GPU: what
// stands in the way of one, as a read that waits for it, is seen here.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "attention_variants/torch.h"
#include "harness/steps/step_graph.h"

namespace lra {

/// The device: LibTorch has a name for it and no operators, so that every call on its tensors comes
/// to this file. A call with a tensor that is not on it, but for copies and numbers, throws
/// c10::Error.
torch::Device recorded_device();

/// What the device is asked while one of these lives; at most one does.
class DeviceRecord {
 public:
  DeviceRecord();
  ~DeviceRecord();
  DeviceRecord(const DeviceRecord&) = delete;
  DeviceRecord& operator=(const DeviceRecord&) = delete;

  /// Calls of operators that compute: no views and no allocations. What a GPU would launch, or
  /// less: some need several kernels.
  int64_t launches() const { return launches_; }
  /// Each operator, with its number of calls.
  const std::map<std::string, int64_t>& calls() const { return calls_; }
  /// Operators that a GPU would have to finish for, since the host needs what they give.
  const std::multiset<std::string>& waits() const { return waits_; }
  /// Copies from the device to the host, and from the host to the device.
  int64_t copies_out() const { return copies_out_; }
  int64_t copies_in() const { return copies_in_; }

  void add_launch(const std::string& name);
  void add_wait(const std::string& name) { waits_.insert(name); }
  void add_copy(bool out) { ++(out ? copies_out_ : copies_in_); }

 private:
  int64_t launches_ = 0, copies_out_ = 0, copies_in_ = 0;
  std::map<std::string, int64_t> calls_;
  std::multiset<std::string> waits_;
};

/// Steps on that device as a graph: what was recorded is called again, on the same memory. A
/// recording changes nothing that was there before it, as none of a GPU runs anything, and throws
/// c10::Error at what a GPU could not record.
std::unique_ptr<StepGraph> make_recorded_graph();

/// How often graphs of that device have recorded and replayed so far.
struct GraphCounts {
  int64_t warm_ups = 0, captures = 0, replays = 0;
};
GraphCounts& graph_counts();

}  // namespace lra
