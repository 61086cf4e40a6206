// Operators of CUDA tensors, tested where there are none: CPU tensors, and emulated kernels.
#pragma once

#include <optional>
#include <ostream>

#include "attention_variants/ops/cuda/device_table.h"
#include "tests/cuda_emulator/emulator.h"

namespace lra {

enum class Device { cpu, emulated_gpu };
constexpr Device kEmulatedGpu = Device::emulated_gpu;
inline void PrintTo(Device device, std::ostream* to) {
  *to << (device == Device::cpu ? "cpu" : "emulated GPU");
}

/// While it lives, operators with own kernels run as they do on that device.
class OnDevice {
 public:
  explicit OnDevice(Device device) {
    if (device == Device::emulated_gpu) table_.emplace(lra_cuda_kernels());
  }

 private:
  std::optional<ops::cuda::WithHostTable> table_;
};

}  // namespace lra
