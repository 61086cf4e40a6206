// Layer normalisation of rows on CPUs, and its sum over a sequence, as operators that pass over
// padding.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension of x [...,D], float32
/// on a CPU; weight and bias [D]. Rows where mask [...] (undefined: all true) is false are anything
/// finite. Differentiable once.
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, double eps, const torch::Tensor& mask = {});

/// The sum of the rows of layer_norm(x) where mask [B,N] is true: x [B,N,D] -> [B,D]. What is
/// normalised is never stored. Differentiable once.
torch::Tensor layer_norm_sum(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias, double eps, const torch::Tensor& mask);

}  // namespace lra::ops
