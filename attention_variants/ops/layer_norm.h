// Layer normalisation of rows, and its mean over a sequence. The own kernels pass over padding and
// are differentiable once.
#pragma once

#include <cstdint>

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

struct LayerNormMeanCall {
  using Result = torch::Tensor;
  using Shape = NormShape;
  torch::Tensor x;
  RowNorm norm;
  torch::Tensor mask;
  int64_t over = 0;
};

/// mean_of_rows() of the rows of layer_norm(x), x [B,N,D] -> [B,D]; what masked rows hold is finite
/// too. The own kernels store nothing that is normalised.
torch::Tensor layer_norm_mean(Kernels asked, const torch::Tensor& x, const RowNorm& norm,
                              const torch::Tensor& mask, int64_t over = 0);

/// The mean of rows where mask [B,N] is true, given their sum [B,D]: divided by `over`, or where
/// that is 0 by their number, at least 1.
torch::Tensor mean_of_rows(const torch::Tensor& sum, const torch::Tensor& mask, int64_t over = 0);

}  // namespace lra::ops
