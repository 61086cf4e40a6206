// Layer normalisation of rows, and its sum over a sequence. The own kernels pass over padding and
// are differentiable once.
#pragma once

#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct NormShape {
  int64_t width = 0;
};

struct LayerNormCall {
  using Result = torch::Tensor;
  using Shape = NormShape;
  torch::Tensor x;
  RowNorm norm;
  torch::Tensor mask;
};

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension of x [...,D]; weight
/// and bias [D]. Rows where mask [...] (undefined: all true) is false are anything finite.
torch::Tensor layer_norm(Kernels asked, const torch::Tensor& x, const RowNorm& norm,
                         const torch::Tensor& mask = {});

struct LayerNormSumCall {
  using Result = torch::Tensor;
  using Shape = NormShape;
  torch::Tensor x;
  RowNorm norm;
  torch::Tensor mask;
};

/// The sum of the rows of layer_norm(x) where mask [B,N] is true: x [B,N,D] -> [B,D]. The own
/// kernel stores nothing that is normalised.
torch::Tensor layer_norm_sum(Kernels asked, const torch::Tensor& x, const RowNorm& norm,
                             const torch::Tensor& mask);

}  // namespace lra::ops
