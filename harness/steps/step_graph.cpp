#include "harness/steps/step_graph.h"

#include <dlfcn.h>

#include <string_view>

#include "harness/host/self_command.h"

namespace lra {
namespace {

// Null where there is no such module.
MakeStepGraph* cuda_step_graphs() {
  constexpr std::string_view kModule = LRA_CUDA_KERNELS;  // "" where none was built
  if (kModule.empty()) return nullptr;
  void* const module =
      dlopen(host::module_file(kModule).c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded
  return module == nullptr ? nullptr
                           : reinterpret_cast<MakeStepGraph*>(dlsym(module, "lra_make_step_graph"));
}

}  // namespace

StepGraphMaker step_graphs(torch::Device device) {
  MakeStepGraph* const make = device.is_cuda() ? cuda_step_graphs() : nullptr;
  if (make == nullptr) return nullptr;
  return [make, device] { return make(device); };
}

}  // namespace lra
