// Rotary positions: what stands at a position is turned by an angle that grows with it.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// x [B,H,N,d], d even -> [B,H,N,d] of its type: columns 2i and 2i + 1 of row p, as a plane, turned
/// by (first + p) base^(-2i/d), so that a product of two rows knows their distance and not their
/// places. Norms stay. Computed in float32, in float64 where x is. Su et al., "RoFormer: Enhanced
/// Transformer with Rotary Position Embedding", 2021, section 3.2.2.
torch::Tensor rotate(const torch::Tensor& x, double base, int64_t first = 0);

}  // namespace lra::ops
