// Softmax attention of any number of queries to any number of keys, forward and backward. Where
// there are few of one kind, the many of the other are taken in ranges by blocks of their own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

struct SoftmaxParams {
  Storage storage;
  int batch, heads, queries, keys, depth;  // B, H, M, N, d <= 128
  float scale;                             // of q kᵀ
  Heads q, k, v;                           // [B,H,M,d], [B,H,N,d], [B,H,N,d]
  const bool* query_mask;                  // [B,M]; null: all ask
  const bool* key_mask;                    // [B,N]; null: all are seen
  MutableHeads out;                        // [B,H,M,d]
  MutableHeads sum;                        // [B,H,M,d], to which out is added; null: none
  float *top, *inverse;                    // [B,H,M]: a weight is exp(score - top) inverse
  float* scratch;                          // softmax_scratch() floats
  // Backward.
  float* along;    // [B,H,M], scratch
  Heads grad_out;  // [B,H,M,d]
  MutableHeads grad_q, grad_k, grad_v;
};

/// Into how many ranges `others`, keys or queries, are divided where the others are the rows of
/// tiles of 64: by the sizes alone, so that results are the same on every device.
inline int64_t softmax_ranges(const SoftmaxParams& p, int64_t rows, int64_t others) {
  constexpr int64_t kWantedBlocks = 512, kLeastRange = 256;
  const int64_t blocks = (rows + 63) / 64 * p.batch * p.heads;
  return std::max<int64_t>(
      1, std::min((kWantedBlocks + blocks - 1) / blocks, (others + kLeastRange - 1) / kLeastRange));
}

/// Floats of scratch of a pass; pointers are not read.
inline int64_t softmax_scratch(const SoftmaxParams& p, bool backward) {
  const int64_t items = int64_t{p.batch} * p.heads;
  const auto parts = [&](int64_t rows, int64_t others, int64_t numbers) {
    const int64_t ranges = softmax_ranges(p, rows, others);
    return ranges == 1 ? 0 : ranges * items * rows * numbers;
  };
  if (!backward) return parts(p.queries, p.keys, p.depth + 2);
  // The gradient of q is summed before those of k and v are begun.
  return std::max(parts(p.queries, p.keys, p.depth), parts(p.keys, p.queries, 2 * p.depth));
}

/// Writes out, top and inverse. Rows of queries that do not ask, or see no key, are zero.
void launch_softmax_forward(const SoftmaxParams& params, Stream stream);

/// Given these and grad_out, writes grad_q, grad_k and grad_v.
void launch_softmax_backward(const SoftmaxParams& params, Stream stream);

}  // namespace lra::ops::cuda
