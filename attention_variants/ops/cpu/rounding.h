// What autocast means to the own kernels: operands of products are rounded to bfloat16, sums are of
// float32, and results of products are stored in bfloat16, as on GPUs; what a residual adds up
// stays float32.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// How a forward pass multiplies, kept for its backward pass.
GemmPrecision save_gemm_precision(torch::autograd::AutogradContext& context);
GemmPrecision saved_gemm_precision(const torch::autograd::AutogradContext& context);

/// The elements of a tensor of bfloat16, as loops take them.
inline const uint16_t* bfloat16_data(const torch::Tensor& x) {
  return reinterpret_cast<const uint16_t*>(x.const_data_ptr<c10::BFloat16>());
}
inline uint16_t* mutable_bfloat16_data(const torch::Tensor& x) {
  return reinterpret_cast<uint16_t*>(x.mutable_data_ptr<c10::BFloat16>());
}

}  // namespace lra::ops::cpu
