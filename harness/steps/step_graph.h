// A training step that is recorded once and repeated: a CUDA graph, or what stands in for it.
#pragma once

#include <functional>
#include <memory>

#include "attention_variants/torch.h"

namespace lra {

/// The work of one device, recorded. The tensors that it reads and writes must stay where they are.
class StepGraph {
 public:
  StepGraph() = default;
  virtual ~StepGraph() = default;
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Runs `work` as it is recorded, for what libraries do when they are first called.
  virtual void warm_up(const std::function<void()>& work) = 0;
  /// Records what `work` launches, without running it. Throws c10::Error where it does what cannot
  /// be recorded: then nothing has been run either.
  virtual void capture(const std::function<void()>& work) = 0;
  /// Runs what was recorded, behind what was launched before; does not wait for it.
  virtual void replay() = 0;
};

/// The function lra_make_step_graph of the module lra_cuda.
using MakeStepGraph = std::unique_ptr<StepGraph>(torch::Device device);

/// Makes what records steps on a device.
using StepGraphMaker = std::function<std::unique_ptr<StepGraph>()>;

/// What records steps as CUDA graphs; null on a CPU, and where this program has no such module.
StepGraphMaker step_graphs(torch::Device device);

}  // namespace lra
