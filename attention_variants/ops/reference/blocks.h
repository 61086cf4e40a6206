// Sequences cut into blocks of positions: the layout behind the variants whose queries see blocks.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// ⌈length / block⌉
int64_t block_count(int64_t length, int64_t block);

/// x [B,H,N,d] -> [B*n,H,block,d], n = ⌈N/block⌉: each block a batch entry of its own, as the fused
/// kernels take it. A fresh tensor; padded positions (mask [B,N] false) and those past N are zero.
torch::Tensor split_blocks(const torch::Tensor& x, const torch::Tensor& mask, int64_t block);

/// mask [B,N] -> [B*n,block]; positions past N are false.
torch::Tensor split_mask(const torch::Tensor& mask, int64_t block);

/// The inverse of split_blocks: [B*n,H,block,d] -> [B,H,N,d].
torch::Tensor join_blocks(const torch::Tensor& blocks, int64_t batch, int64_t length);

/// The logit of a key that is not there, where a kernel has no place for a mask of its own: finite,
/// so that a row without any key stays finite too, and far below any logit, so that the key's
/// weight beside a real one is exactly zero.
inline constexpr double kAbsentLogit = -1e30;

}  // namespace lra::ops::reference
