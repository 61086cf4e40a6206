// Softmax attention over a pattern of keys on CPUs as one operator; see cpu/pattern_head.h.
#pragma once

#include <vector>

#include "attention_variants/ops/cpu/kernels/block_sparse_attention.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Of each head, or one for all.
using Patterns = std::vector<cpu::SparsityPattern>;

/// softmax(q kᵀ / √d) v over the tokens that each query sees by the pattern: q, k, v [B,H,N,d]
/// float32 on a CPU, mask [B,N] bool -> [B,H,N,d], laid out as [B,N,H,d]; rows of padding, and of
/// queries that see no token, are zero. Differentiable once.
torch::Tensor block_sparse_attention(const torch::Tensor& q, const torch::Tensor& k,
                                     const torch::Tensor& v, const torch::Tensor& mask,
                                     Patterns patterns);

/// Bytes that block_sparse_attention() holds above its inputs without gradients, the result among
/// them.
int64_t block_sparse_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                                     const Patterns& patterns);

}  // namespace lra::ops
