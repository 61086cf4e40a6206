// Softmax attention of one head of one sample, forward and backward, a tile of queries and a tile
// of keys at a time; keys and values of a head stay in a core's cache. After FlashAttention (Dao et
// al., NeurIPS 2022) and Rabe & Staats (2021): sums run along, nothing of N x N is stored.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/heads/softmax_tiles.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"

namespace lra::ops::cpu {

struct SoftmaxShape {
  int64_t queries = 0;  // M
  int64_t keys = 0;     // N
  int64_t depth = 0;    // d of queries and keys
  int64_t values = 0;   // e of values
  float scale = 1;
};

struct SoftmaxInputs {
  ConstMatrix q, k, v;               // [M,d], [N,d], [N,e]
  const bool* key_mask = nullptr;    // [N]; null = all are seen
  const bool* query_mask = nullptr;  // [M]; null = all ask; the results of the others are zero
  WeightDropout dropout = {};        // each tile of queries has a block for every key
};

/// Queries a tile; forward tiles are independent.
inline constexpr int64_t kQueryTile = 128;
static_assert(kQueryTile == kDropoutBlock);

struct SoftmaxGradients {
  Matrix q, k, v;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Floats of scratch, a thread.
int64_t softmax_scratch(const SoftmaxShape& shape, InnerPadding holes);
int64_t softmax_backward_scratch(const SoftmaxShape& shape, InnerPadding holes);

/// Writes rows [begin, begin + kQueryTile) of out [M,e], and of stats [M], of scores times log2 e.
void softmax_forward(const SoftmaxShape& shape, const SoftmaxInputs& inputs, int64_t begin,
                     Matrix out, const SoftmaxStats& stats, float* scratch);

/// Writes all gradients of a head.
void softmax_backward(const SoftmaxShape& shape, const SoftmaxInputs& inputs, ConstMatrix out,
                      const SoftmaxStats& stats, ConstMatrix grad_out, const SoftmaxGradients& grad,
                      float* scratch);

}  // namespace lra::ops::LRA_KERNELS
