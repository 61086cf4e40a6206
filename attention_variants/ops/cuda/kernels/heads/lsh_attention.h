// Attention among tokens that a hash puts near each other (ops/lsh_attention.h), forward and
// backward: hashing, sorting, attention within the chunks of each round, and the rounds' sum.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cuda {

inline constexpr int kMostBuckets = 1024, kMostBucketFactors = 4;

struct LshBuckets {
  int factors[kMostBucketFactors];  // of the number of buckets, all even
  int factor_count;                 // 0: one bucket
  int count, width;                 // their product, half their sum
  const float* rotations;           // [H,R,width,d]
};

struct LshParams {
  Storage storage;
  int batch, heads, length, depth;  // B, H, N, d <= 128
  int rounds, chunk, chunks;        // R; tokens of a chunk; chunks of a round
  int before, after;                // chunks that a chunk sees on either side
  KeyScale key_scale;
  LshBuckets buckets;
  Heads x, v;            // [B,H,N,d]
  const bool* mask;      // [B,N]; null: all are tokens
  int32_t* order;        // [B,H,R,chunks,chunk]: each round's tokens by (bucket, position), then -1
  float* factors;        // [B,H,N]: what multiplies x as a key
  MutableHeads out;      // [B,H,N,d]
  float *top, *inverse;  // [B,H,N]: a weight is exp(score - top) inverse
  float* scratch;        // lsh_forward_scratch() or lsh_backward_scratch() floats
  Heads grad_out;        // [B,H,N,d]
  MutableHeads grad_x, grad_v;
};

/// Floats of scratch: each round's results, tops and sums, and its buckets before; gradients of
/// queries, keys and values.
constexpr int64_t lsh_forward_scratch(const LshParams& p) {
  return int64_t{p.batch} * p.heads * p.rounds * p.length * (p.depth + 2);
}
constexpr int64_t lsh_backward_scratch(const LshParams& p) {
  return int64_t{p.batch} * p.heads * p.length * (3 * int64_t{p.rounds} * p.depth + 1);
}

/// Writes order, factors, out, top and inverse; of padding out is zero, and the others mean
/// nothing.
void launch_lsh_forward(const LshParams& params, Stream stream);

/// Given these and grad_out, writes grad_x and grad_v.
void launch_lsh_backward(const LshParams& params, Stream stream);

}  // namespace lra::ops::cuda
