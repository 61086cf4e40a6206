// Linear layers over the rows of one tensor, a tile of rows at a time.
#pragma once

#include <vector>

#include "attention_variants/torch.h"

namespace lra::ops {

/// A linear layer's parameters: weight [out,in], bias [out].
struct LinearWeights {
  torch::Tensor weight, bias;
};

/// The layer normalisation of rows before they are read: weight and bias [in].
struct RowNorm {
  torch::Tensor weight, bias;
  double eps = 1e-5;
};

/// norm(x) Wᵀ + b (without a norm x Wᵀ + b) for each of several layers, x [B,N,in] float32 on a CPU
/// -> a [B,N,out] each, and x again: what that one's gradient is, of a residual say, is added in
/// the same pass. x is read once, and its gradient written once; what is normalised is not stored.
/// Rows where mask [B,N] (undefined: all true) is false are anything finite. Differentiable once.
struct LinearRows {
  std::vector<torch::Tensor> y;
  torch::Tensor x;
};
LinearRows linear(const torch::Tensor& x, const RowNorm* norm,
                  const std::vector<LinearWeights>& layers, const torch::Tensor& mask = {});

/// x Wᵀ + b, x [B,N,in] float32 on a CPU -> [B,N,out], with rows zero where mask [B,N] is false.
/// Differentiable once.
torch::Tensor masked_linear_rows(const torch::Tensor& x, const LinearWeights& layer,
                                 const torch::Tensor& mask);

}  // namespace lra::ops
