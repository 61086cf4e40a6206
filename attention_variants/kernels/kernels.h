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

}  // namespace lra
