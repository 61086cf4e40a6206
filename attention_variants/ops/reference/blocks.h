// Sequences cut into blocks of positions: the layout behind the variants whose queries see blocks.
#pragma once

#include <cstdint>

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

/// Of a block between the ends: the first, the last, the one before, its own, the one after.
inline constexpr int64_t kFixedBlocks = 5;

/// The blocks that each between the ends sees whatever is drawn [count-2,kFixedBlocks]; -1 = none,
/// where a neighbour is an end.
torch::Tensor fixed_blocks(int64_t count);

/// [H,count,r] from the seed, without repetition among the blocks that a block does not see anyway;
/// -1 where there are no more of those, and of the ends.
torch::Tensor draw_blocks(int64_t heads, int64_t count, int64_t r, uint64_t seed);

/// The logit of a key that is not there, where a kernel has no place for a mask of its own: finite,
/// so that a row without any key stays finite too, and far below any logit, so that the key's
/// weight beside a real one is exactly zero.
inline constexpr double kAbsentLogit = -1e30;

}  // namespace lra::ops::reference
