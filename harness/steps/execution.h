// Whether the steps of a run are launched one by one or repeated as a CUDA graph.
#pragma once

#include <string>

#include "attention_variants/torch.h"
#include "lra/config/config.h"
#include "lra/model/model.h"

namespace lra {

/// How steps run, and where it is not as a graph, why; of a graph, why the optimizer's part is not
/// in it.
struct StepExecution {
  bool graph = false;
  std::string reason;

  /// Whether the optimizer's part is in the graph, too.
  bool whole() const { return graph && reason.empty(); }
  /// "graph", "graph but for the optimizer (the schedule changes beta1)" or "eager (on a CPU)".
  std::string text() const {
    if (whole()) return "graph";
    return (graph ? "graph but for the optimizer (" : "eager (") + reason + ")";
  }
};

/// What the setting `execution` comes to. `processes`: that train together.
StepExecution step_execution(const Config& config, const Model& model, torch::Device device,
                             int64_t processes, bool has_graphs);

}  // namespace lra
