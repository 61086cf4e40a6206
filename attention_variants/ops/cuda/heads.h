// Tensors of heads [B,H,N,d] as the CUDA kernels see them.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/torch.h"

namespace lra::ops::cuda {

/// x [B,H,N,d], copied where kernels could not read it: with rows side by side, and all of a head
/// of a sample within 2^31 elements.
torch::Tensor with_readable_rows(const torch::Tensor& x);

/// Of x with such rows.
Heads heads_of(const torch::Tensor& x);
MutableHeads mutable_heads_of(const torch::Tensor& x);

/// Whether there are kernels of tiles for that place and width, and grids have room for so many
/// heads of all samples.
bool tiles_take(const Place& place, int64_t batch, int64_t heads, int64_t length, int64_t head_dim);

/// Not filled, float32 on the device of x.
torch::Tensor empty_floats(const torch::Tensor& x, at::IntArrayRef sizes);

}  // namespace lra::ops::cuda
