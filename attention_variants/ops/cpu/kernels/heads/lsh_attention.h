// Attention of one head of one sample among tokens that a hash puts near each other: hashing and
// sorting, forward and backward, a chunk of queries at a time. The chunks that a chunk sees stay in
// a ring, so that a token's row is gathered once a round; no more than the scores of a few queries
// is ever held, and the backward pass computes them anew.
#pragma once

#include <cstdint>
#include <span>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cpu {

struct LshShape {
  int64_t length = 0;  // N
  int64_t depth = 0;   // d of x
  int64_t values = 0;  // e of values
  int64_t rounds = 1;  // R
  int64_t chunk = 0;   // c tokens
  int64_t before = 0;  // chunks that a chunk sees on either side
  int64_t after = 0;
  KeyScale key_scale = KeyScale::rms;

  LRA_INLINE int64_t chunks() const { return (length + chunk - 1) / chunk; }  // of a round
  LRA_INLINE int64_t places() const { return chunks() * chunk; }              // of a round
  LRA_INLINE int64_t window() const {
    return (before + 1 + after) * chunk;
  }  // keys that a chunk sees
};

struct LshInputs {
  ConstMatrix x, v;            // [N,d], [N,e]
  const bool* mask = nullptr;  // [N]
};

struct LshBuckets {
  std::span<const int64_t> factors;  // of their number, all even; none = one bucket
  const float* rotations = nullptr;  // [R,Σ factors/2,d]
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Floats of scratch, a thread, of hashing and of the forward or the backward pass.
int64_t lsh_scratch(const LshShape& shape, const LshBuckets& buckets, bool backward);

/// Writes order [R,places]: each round's tokens by (bucket, position), then -1 for padding. A
/// bucket is argmax [Rx; -Rx], of factors the first counting least.
void lsh_sort(const LshShape& shape, const LshInputs& inputs, const LshBuckets& buckets,
              int32_t* order, float* scratch);

/// Writes out [N,e]: for each token one softmax over all it sees in any round, in which it sees
/// itself only where it sees nothing else; top [N] and inverse [N], such that a weight is
/// exp(score - top) inverse. Rows of padding of out are zero, those of top and inverse mean
/// nothing.
void lsh_forward(const LshShape& shape, const LshInputs& inputs, const int32_t* order, Matrix out,
                 float* top, float* inverse, float* scratch);

/// Writes the gradients of x and v, given out and its gradient.
void lsh_backward(const LshShape& shape, const LshInputs& inputs, const int32_t* order,
                  ConstMatrix out, const float* top, const float* inverse, ConstMatrix grad_out,
                  Matrix grad_x, Matrix grad_v, float* scratch);

}  // namespace lra::ops::LRA_KERNELS
