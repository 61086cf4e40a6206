// Training steps on a device that is given each of them as a whole: the first few run as they are,
// one is recorded behind the last of them, and all others repeat that recording.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/torch.h"
#include "harness/steps/step_graph.h"
#include "lra/data/loader.h"

namespace lra {

/// What GraphedSteps runs and records.
struct StepWork {
  /// A step as it is, on a batch.
  std::function<void(const Batch&)> run;
  /// Its launches alone, for a recording: nothing is counted, and what changes from step to step is
  /// read on the device. Returns what after_replay reads: each run computes it at the same place.
  std::function<std::vector<torch::Tensor>(const Batch&)> record;
  /// What goes before each run of the recording, and behind it.
  std::function<void()> before_replay;
  std::function<void(const std::vector<torch::Tensor>&)> after_replay;
};

/// One recording for each shape of a batch, with and without padding, and with memory of its own
/// for the batch.
class GraphedSteps {
 public:
  /// Steps that run as they are before one is recorded.
  static constexpr int64_t kWarmUps = 3;

  GraphedSteps(torch::Device device, StepGraphMaker make, StepWork work);

  /// One step on a batch, on the device. Throws Error where a recording fails: LibTorch's allocator
  /// and generators do not come back from that, so that no step can follow (pytorch#180395,
  /// #190348).
  void run(const Batch& batch);

 private:
  struct Recording {
    Batch inputs;
    std::unique_ptr<StepGraph> graph;
    std::unique_ptr<ops::SeedTape> seeds;
    std::vector<torch::Tensor> left;  // by work_.record
    int64_t warm_ups = 0;
    bool captured = false;
  };
  using Key = std::pair<std::vector<int64_t>, bool>;  // the tokens' sizes, whether without padding

  Recording& recording_for(const Batch& batch);
  void capture(Recording& recording);

  torch::Device device_;
  StepGraphMaker make_;
  StepWork work_;
  std::map<Key, Recording> recordings_;
};

}  // namespace lra
