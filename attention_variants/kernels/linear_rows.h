// Linear layers over the rows of one tensor, a tile of rows at a time.
#pragma once

#include <array>

#include "attention_variants/torch.h"

namespace lra {

/// A linear layer's parameters: weight [out,in], bias [out].
struct LinearWeights {
  torch::Tensor weight, bias;
};

/// x Wᵀ + b for three layers at once, x [B,N,in] float32 on a CPU -> three of [B,N,out]: x is read
/// once, and its gradient written once. Rows where mask [B,N] (undefined: all true) is false are
/// anything finite. Differentiable once.
std::array<torch::Tensor, 3> linear_rows(const torch::Tensor& x,
                                         const std::array<LinearWeights, 3>& layers,
                                         const torch::Tensor& mask = {});

/// x Wᵀ + b, x [B,N,in] float32 on a CPU -> [B,N,out], with rows zero where mask [B,N] is false.
/// Differentiable once.
torch::Tensor masked_linear_rows(const torch::Tensor& x, const LinearWeights& layer,
                                 const torch::Tensor& mask);

}  // namespace lra
