// Softmax attention of one head between few landmarks and many positions, forward and backward, a
// tile of positions at a time: the scores of a tile stay in cache, and no M x N matrix is stored.
// The backward pass computes the scores anew.
//
// One thread; every function takes SmallAttentionScratch of its pass. Scores are scale * q kᵀ.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/softmax_columns.h"

namespace lra::ops::cpu {

/// What is added to the score of landmark c and position t: values[zero + c - t]; null = nothing.
/// The backward pass adds to `gradient`, of the same places.
struct LeadBias {
  const float* values = nullptr;
  float* gradient = nullptr;
  int64_t zero = 0;
};

struct SmallAttentionShape {
  int64_t length = 0;  // N positions
  int64_t few = 0;     // m landmarks
  int64_t depth = 0;   // d of queries and keys
  int64_t values = 0;  // e of values
  float scale = 1;
  // attend_small_q() and its backward pass alone:
  WeightDropout dropout = {};
  LeadBias bias = {};
};

/// Whether a gradient is written or added to what stands there.
enum class Gradient { write, add };

/// The scores of a tile, [few,kStride] or [kTile,few]; backward their gradient, alike; a number a
/// landmark; with a column for each landmark, themselves, what is added up for them and, backward,
/// the gradient of their results.
struct SmallAttentionScratch {
  // From row to row; with one that is a power of two, columns fall into few sets of the cache.
  static constexpr int64_t kStride = kTile + 16;
  LRA_INLINE SmallAttentionScratch(const SmallAttentionShape& shape, Pass pass, Arena& arena)
      : scores(arena.take(shape.few * kStride)),
        grad(pass == Pass::backward ? arena.take(shape.few * kStride) : nullptr),
        row(arena.take(shape.few)),
        turned(arena.take(shape.depth * shape.few)),
        sums(arena.take((pass == Pass::forward ? shape.values : shape.depth) * shape.few)),
        turned_grad(pass == Pass::backward ? arena.take(shape.values * shape.few) : nullptr) {}
  float *scores, *grad, *row, *turned, *sums, *turned_grad;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// out [N,e] = softmax(scale q kᵀ + bias) x with q [N,d], k [m,d], x [m,e]; bias [m], -inf where a
/// key is absent, at least one being present. Of each softmax, top [N] gets log2 e times the
/// largest score, and inverse [N] one over its sum.
void attend_small_kv(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix x,
                     const float* bias, Matrix out, float* top, float* inverse, Arena& arena);

/// Given these and the gradient of out: writes grad_q [N,d]; adds to grad_k [m,d] and grad_x [m,e].
void attend_small_kv_backward(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k,
                              ConstMatrix x, const float* bias, const float* top,
                              const float* inverse, ConstMatrix grad_out, Matrix grad_q,
                              Matrix grad_k, Matrix grad_x, Arena& arena);

/// out [m,e] = softmax(scale q kᵀ + bias) v with q [m,d], k [N,d], v [N,e] over the keys where
/// `mask` [N] is true (null = all), at least one; stats [m] are of scores times log2 e. Rows of k
/// and v where `mask` is false should be finite.
void attend_small_q(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                    const bool* mask, Matrix out, const SoftmaxStats& stats, Arena& arena);

/// Given the gradient of out: adds to grad_q [m,d]; writes, or adds to, grad_k [N,d] and grad_v
/// [N,e]; zero where `mask` is false.
void attend_small_q_backward(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k,
                             ConstMatrix v, const bool* mask, ConstMatrix out,
                             const SoftmaxStats& stats, ConstMatrix grad_out, Matrix grad_q,
                             Matrix grad_k, Matrix grad_v, Gradient gradient, Arena& arena);

/// s [rows,m], contiguous: each row becomes softmax(row + bias), bias [m].
void softmax_rows(float* s, int64_t rows, int64_t m, const float* bias);

/// p [rows,m] such softmaxes, grad [rows,m] their gradient: grad becomes scale times that of what
/// went into them.
void softmax_rows_backward(const float* p, float* grad, int64_t rows, int64_t m, float scale);

}  // namespace lra::ops::LRA_KERNELS
