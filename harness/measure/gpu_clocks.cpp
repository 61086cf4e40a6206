#include "harness/measure/gpu_clocks.h"

#include <dlfcn.h>

#include "harness/host/gpu.h"

namespace lra::measure {
namespace {

// nvmlClockType_t, and what slows a GPU down of nvmlClocksEventReasons. The limit on its power is
// not among these: under load it is what sets the clock.
constexpr unsigned kMultiprocessors = 1, kMemory = 2;
constexpr unsigned long long kHardware = 0x8, kTooHot = 0x20 | 0x40, kPowerBrake = 0x80;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::string slowed_by(unsigned long long reasons) {
  if ((reasons & kTooHot) != 0) return "too hot";
  if ((reasons & kPowerBrake) != 0) return "an outside power brake";
  if ((reasons & kHardware) != 0) return "a hardware slowdown";
  return "";
}

}  // namespace

std::optional<Nvml> load_nvml(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // stays loaded
  if (library == nullptr) return std::nullopt;
  Nvml nvml;
  const bool all = find(library, "nvmlInit_v2", nvml.init) &&
                   find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.by_bus) &&
                   find(library, "nvmlDeviceGetClockInfo", nvml.clock) &&
                   find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.reasons);
  if (!all || nvml.init() != 0) return std::nullopt;
  return nvml;
}

std::optional<GpuClocks> gpu_clocks(const Nvml& nvml, const std::string& bus) {
  void* gpu = nullptr;
  GpuClocks clocks;
  if (nvml.by_bus(bus.c_str(), &gpu) != 0 || nvml.clock(gpu, kMultiprocessors, &clocks.mhz) != 0 ||
      nvml.clock(gpu, kMemory, &clocks.memory_mhz) != 0)
    return std::nullopt;
  unsigned long long reasons = 0;
  if (nvml.reasons(gpu, &reasons) == 0) clocks.slowed = slowed_by(reasons);
  return clocks;
}

std::optional<GpuClocks> gpu_clocks(int index) {
  const std::optional<std::string> bus = host::gpu_bus(index);
  if (!bus) return std::nullopt;
  static const std::optional<Nvml> nvml = load_nvml();
  return nvml ? gpu_clocks(*nvml, *bus) : std::nullopt;
}

}  // namespace lra::measure
