// Softmax attention of a row to its own block and to the summary columns of all blocks: the fixed
// pattern of Child et al., "Generating Long Sequences with Sparse Transformers", arXiv 2019,
// section 4.3.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention_variants/torch.h"

namespace lra::ops::reference {

struct SummaryAttentionOptions {
  int64_t block = 0;    // b
  int64_t summary = 0;  // last columns of each block that all rows see, beside its first
  bool causal = false;
  double dropout = 0;  // of the weights
  bool training = false;

  /// c: the first column of a block and its last `summary`.
  int64_t columns() const { return std::min(summary + 1, block); }
};

/// A key that all rows see beside their own; undefined: there is none.
struct OpenKey {
  torch::Tensor k, v;  // [B,H,1,d]
  torch::Tensor real;  // [B,1] bool
};

/// q, k, v [B,H,N,d], mask [B,N] bool -> [B,H,N,d], in the type of q; padded rows are zero. The
/// softmax of a row runs over the real keys of its block, the summary columns of the other blocks
/// (causal: of the blocks before it, and of its own no later key), and `open`.
torch::Tensor summary_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& mask,
                                const OpenKey& open, const SummaryAttentionOptions& options);

/// Bytes that summary_attention() without an open key holds at most, without gradients; `rows` is
/// B*H.
int64_t summary_attention_bytes(int64_t rows, int64_t length, int64_t head_dim,
                                int64_t element_size, const SummaryAttentionOptions& options);

}  // namespace lra::ops::reference
