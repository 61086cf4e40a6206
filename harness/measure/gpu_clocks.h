// The clocks of a GPU while something is measured, from NVIDIA's management library where the
// driver brings it.
#pragma once

#include <optional>
#include <string>

namespace lra::measure {

struct GpuClocks {
  unsigned mhz = 0, memory_mhz = 0;  // of the multiprocessors, and of the memory
  std::string slowed;                // why it runs below its clock, "too hot"; "" = it does not
};

/// The functions of the management library that are used, by their names there; 0 is success. See
/// NVIDIA's NVML API reference.
struct Nvml {
  int (*init)() = nullptr;                                           // nvmlInit_v2
  int (*by_bus)(const char* bus, void** gpu) = nullptr;              // ..GetHandleByPciBusId_v2
  int (*clock)(void* gpu, unsigned kind, unsigned* mhz) = nullptr;   // ..GetClockInfo
  int (*reasons)(void* gpu, unsigned long long* reasons) = nullptr;  // ..ClocksThrottleReasons
};

/// The library loaded from the system; nothing where there is none, or one without these functions.
std::optional<Nvml> load_nvml(const char* name = "libnvidia-ml.so.1");

/// The clocks now of the GPU at that place of the PCI bus ("0000:3b:00.0"); nothing where the
/// library cannot tell.
std::optional<GpuClocks> gpu_clocks(const Nvml& nvml, const std::string& bus);

/// The same of CUDA device `index` of this process, by the system's library.
std::optional<GpuClocks> gpu_clocks(int index);

}  // namespace lra::measure
