// How an operator's forward pass multiplies, kept for its backward pass: with operands rounded to
// bfloat16 under autocast, whatever is stored between products staying float32.
#pragma once

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

GemmPrecision save_gemm_precision(torch::autograd::AutogradContext& context);
GemmPrecision saved_gemm_precision(const torch::autograd::AutogradContext& context);

}  // namespace lra::ops::cpu
