// Which arithmetic runs where there is a choice: kernels of this project's own, or LibTorch's
// operators, formula by formula.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

namespace cpu {
enum class GemmPrecision : int;  // kernels/cpu/matrix.h
}

enum class Kernels {
  fused,      // own kernels where there is one for the device and the type; the default
  reference,  // LibTorch's operators alone, to compare with
};

/// Whether own CPU kernels compute on x: float32 on a CPU, under autocast to bfloat16 too, unless
/// switched off.
bool has_cpu_kernels(Kernels chosen, const torch::Tensor& x);

/// The same for an account of bytes: whether own kernels compute on elements of `element_size`
/// bytes.
inline bool has_cpu_kernels(Kernels chosen, int64_t element_size) {
  return chosen == Kernels::fused && element_size == sizeof(float);
}

/// How an operator's forward pass multiplies, kept for its backward pass: with operands rounded to
/// bfloat16 under autocast, whatever is stored between products staying float32.
cpu::GemmPrecision save_gemm_precision(torch::autograd::AutogradContext& context);
cpu::GemmPrecision saved_gemm_precision(const torch::autograd::AutogradContext& context);

}  // namespace lra::ops
