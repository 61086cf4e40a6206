#include "harness/steps/execution.h"

namespace lra {
namespace {

// "" where a step can be recorded.
std::string obstacle(const Config& config, const Model& model, torch::Device device,
                     int64_t processes, bool has_graphs) {
  if (config.settings.execution == Execution::eager) return "as set";
  if (device.is_cpu()) return "on a CPU";
  if (!has_graphs) return "this program was built without CUDA graphs";
  if (processes > 1) return "several processes exchange gradients";
  if (!model.capturable()) return config.attention.name + " decides on the host in each step";
  return "";
}

// Numbers of the optimizer that change from step to step and that its operator reads on the host;
// "" where there are none.
std::string read_on_host(const Settings& settings) {
  if (!settings.optimizer.groups.empty()) return "groups of parameters have settings of their own";
  if (settings.schedule.beta1_high > 0) return "the schedule changes beta1";
  return "";
}

}  // namespace

StepExecution step_execution(const Config& config, const Model& model, torch::Device device,
                             int64_t processes, bool has_graphs) {
  const std::string reason = obstacle(config, model, device, processes, has_graphs);
  if (!reason.empty()) return {.graph = false, .reason = reason};
  return {.graph = true, .reason = read_on_host(config.settings)};
}

}  // namespace lra
