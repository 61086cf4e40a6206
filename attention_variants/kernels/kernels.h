// Which arithmetic runs where there is a choice: kernels of this project's own, or LibTorch's
// operators, formula by formula.
#pragma once

#include "attention_variants/torch.h"

namespace lra {

enum class Kernels {
  fused,      // own kernels where there is one for the device and the type; the default
  reference,  // LibTorch's operators alone, to compare with
};

/// Whether own CPU kernels compute on x: float32 on a CPU, outside autocast, unless switched off.
bool has_cpu_kernels(Kernels chosen, const torch::Tensor& x);

/// The same for an account of bytes: whether own kernels compute on elements of `element_size`
/// bytes, outside autocast.
inline bool has_cpu_kernels(Kernels chosen, int64_t element_size) {
  return chosen == Kernels::fused && element_size == sizeof(float);
}

}  // namespace lra
