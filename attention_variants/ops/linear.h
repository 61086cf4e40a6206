// Linear layers over the rows of one tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention_variants/ops/types.h"
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

/// y of each layer, [B,N,out], and x again.
struct LinearRows {
  std::vector<torch::Tensor> y;
  torch::Tensor x;
};

/// Rows that operators over rows are asked for.
struct AnyRowsShape {
  int64_t normed_width = 0;  // of those that are normalised; 0: none are
};

struct LinearCall {
  using Result = LinearRows;
  using Shape = AnyRowsShape;
  torch::Tensor x;
  std::optional<RowNorm> norm;
  std::vector<LinearWeights> layers;
  torch::Tensor mask;
};

/// norm(x) Wᵀ + b (without a norm x Wᵀ + b) for each of several layers, x [B,N,in] -> a [B,N,out]
/// each, and x again: what that one's gradient is, of a residual say, is added in the same pass of
/// the own kernel, which reads x once, writes its gradient once, stores nothing normalised, and is
/// differentiable once. Under autocast the y are in its type, and x stays. Rows of x where mask
/// [B,N] (undefined: all true) is false are anything finite; NaN in them reaches no other result
/// and no gradient of the own kernels.
LinearRows linear(Kernels asked, const torch::Tensor& x, const RowNorm* norm,
                  const std::vector<LinearWeights>& layers, const torch::Tensor& mask = {});

struct MaskedLinearCall {
  using Result = torch::Tensor;
  using Shape = AnyRowsShape;
  torch::Tensor x;
  LinearWeights layer;
  torch::Tensor mask;
};

/// x Wᵀ + b, x [B,N,in] -> [B,N,out], with rows zero where mask [B,N] is false; in the type of x or
/// of autocast. The own kernel is differentiable once.
torch::Tensor masked_linear(Kernels asked, const torch::Tensor& x, const LinearWeights& layer,
                            const torch::Tensor& mask);

}  // namespace lra::ops
