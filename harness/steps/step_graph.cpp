#include "harness/steps/step_graph.h"

#include <dlfcn.h>

#include <string_view>

#include "harness/host/self_command.h"

namespace lra {

MakeStepGraph* cuda_step_graphs() {
  constexpr std::string_view kModule = LRA_CUDA_MODULE;  // "" where none was built
  if (kModule.empty()) return nullptr;
  void* const module =
      dlopen(host::module_file(kModule).c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded
  return module == nullptr ? nullptr
                           : reinterpret_cast<MakeStepGraph*>(dlsym(module, "lra_make_step_graph"));
}

}  // namespace lra
