// From the rows behind the last layer to the vector that the head reads.
#pragma once

#include "attention_variants/torch.h"
#include "lra/model/blocks/block.h"
#include "lra/model/blocks/norm.h"

namespace lra {

/// x [B,L,D], L = N or N + 1 with a class token in front, mask [B,N] bool (the real tokens) ->
/// [B,D], of rows that `norm` normalises where there is one. `pass` is that of the layers.
torch::Tensor pool(const torch::Tensor& x, const torch::Tensor& mask, const Norm& norm,
                   const BlockPass& pass);

/// Whether the mean is of all rows, those of padding too.
inline bool mean_of_all(const ModelOptions& options) {
  return options.pooling == Pooling::mean && options.mean_over == MeanOver::all;
}

/// [B,2D] or [B,4D] of the vectors of two inputs, [2B,D], an input's after the other's.
torch::Tensor join_pair(const torch::Tensor& pooled, PairForm form);

}  // namespace lra
