// LibTorch's CUDA part, which GPU a CUDA device's number means in this process, and what it is
// called. This program is compiled without CUDA's headers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/host/self_command.h"

namespace lra::host {

/// Whether this program was built for CUDA: the version of CUDA, or "off".
std::string cuda_version();

/// Loads LibTorch's CUDA part and our own kernels where NVIDIA's driver is installed: it takes as
/// long as all else of the start. Comes before all that asks LibTorch for CUDA, which remembers the
/// first answer. `file` holds our code: the kernels lie beside it where it was carried elsewhere.
/// False where there is no driver, or this build has no CUDA. Throws Error where there is a driver
/// and they cannot be loaded.
bool load_cuda(const char* driver = "libcuda.so.1",
               const std::filesystem::path& file = self_command().file);

/// Whether our own kernels run on CUDA devices here: they want compute capability 8.0 of all.
bool has_own_gpu_kernels();

/// cudaDeviceGetPCIBusId() of CUDA's runtime; 0 is success.
using BusOfDevice = int (*)(char* bus, int length, int device);

/// That function of the runtime that LibTorch brought; null where there is none.
BusOfDevice runtime_bus_of_device();

/// The place on the PCI bus ("0000:3b:00.0") of CUDA device `index` of this process, as
/// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER number devices; nothing where the runtime cannot
/// tell.
std::optional<std::string> gpu_bus(int64_t index, BusOfDevice bus_of = runtime_bus_of_device());

/// The model of the GPU at that place, by the driver's files under `gpus`; "unknown" where these do
/// not say.
std::string gpu_name(const std::string& bus,
                     const std::filesystem::path& gpus = "/proc/driver/nvidia/gpus");

/// The version of NVIDIA's driver that is loaded, as "580.95.05", by its file; "" where there is
/// none or it does not say.
std::string gpu_driver(const std::filesystem::path& file = "/proc/driver/nvidia/version");

}  // namespace lra::host
