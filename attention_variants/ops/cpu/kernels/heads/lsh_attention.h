// Attention of one head of one sample among tokens that a hash puts near each other: hashing and
// sorting, forward and backward, a chunk of queries at a time. The chunks that a chunk sees stay in
// a ring, so that a token's row is gathered once a round; no more than the scores of a few queries
// is ever held, and the backward pass computes them anew.
#pragma once

#include <cstdint>
#include <span>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/team.h"
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

  LRA_INLINE int64_t rotation_width() const {
    int64_t sum = 0;
    for (const int64_t factor : factors) sum += factor;
    return sum / 2;
  }
  LRA_INLINE int64_t count() const {
    int64_t product = 1;
    for (const int64_t factor : factors) product *= factor;
    return product;
  }
};

/// Of lsh_sort(): each token's bucket and where each bucket begins; the products of some tokens and
/// of each the largest and the smallest.
struct LshSortScratch {
  static constexpr int64_t kHashed = 256;  // tokens at a time
  LRA_INLINE LshSortScratch(const LshShape& shape, const LshBuckets& buckets, Arena& arena)
      : bucket(arena.take<int32_t>(shape.length)),
        next(arena.take<int32_t>(buckets.count() + 1)),
        rotated(arena.take(kHashed * buckets.rotation_width())),
        high(arena.take(kHashed)),
        low(arena.take(kHashed)) {}
  int32_t *bucket, *next;
  float *rotated, *high, *low;
};

/// The window of keys that turns round with the queries: rows, and what scores are multiplied by,
/// what is added to them and how the former changes; positions, -1 for padding.
struct LshRingScratch {
  LRA_INLINE LshRingScratch(const LshShape& shape, Arena& arena)
      : x(arena.matrix(shape.window(), shape.depth)),
        v(arena.matrix(shape.window(), shape.values)),
        scale(arena.take(shape.window())),
        bias(arena.take(shape.window())),
        slope(arena.take(shape.window())),
        at(arena.take<int32_t>(shape.window())) {}
  Matrix x, v;
  float *scale, *bias, *slope;
  int32_t* at;
};

/// Of either pass: scores of so many queries at a time, a row and two numbers for each of them.
struct LshScratch {
  LRA_INLINE LshScratch(const LshShape& shape, Arena& arena)
      : rows(rows_of(shape)),
        ring(shape, arena),
        scores(arena.take(rows * shape.window())),
        values(arena.matrix(rows, shape.values)),
        top(arena.take(rows)),
        sum(arena.take(rows)) {}
  LRA_INLINE static int64_t rows_of(const LshShape& shape) {
    constexpr int64_t kScores = 64 * 1024;  // at a time: 256 KiB
    constexpr int64_t kLeastRows = 16, kMostRows = 128;
    int64_t rows = kScores / shape.window();
    rows = rows < kLeastRows ? kLeastRows : rows > kMostRows ? kMostRows : rows;
    return rows < shape.chunk ? rows : shape.chunk;
  }
  int64_t rows;
  LshRingScratch ring;
  float* scores;  // [rows,window]
  Matrix values;  // [rows,e]: of weights and values, or the gradient of the result
  float *top, *sum;
};

/// The same and gradients, backward.
struct LshBackwardScratch : LshScratch {
  LRA_INLINE LshBackwardScratch(const LshShape& shape, Arena& arena)
      : LshScratch(shape, arena),
        grad_x(arena.matrix(shape.window(), shape.depth)),
        grad_v(arena.matrix(shape.window(), shape.values)),
        grad_scores(arena.take(rows * shape.window())),
        grad_query(arena.matrix(rows, shape.depth)),
        along(arena.take(rows)) {}
  Matrix grad_x, grad_v;  // of the ring
  float* grad_scores;     // [rows,window]
  Matrix grad_query;      // [rows,d]
  float* along;
};

/// Of a head that several threads share, backward: gradients that each range of chunks leaves for
/// tokens of chunks beside it, and their positions, -1 for none.
struct LshEdges {
  LRA_INLINE LshEdges(const LshShape& shape, int64_t parts, Arena& arena)
      : rows((shape.before + shape.after) * shape.chunk),
        all(parts == 1 ? 0 : parts * rows),
        x(arena.matrix(all, shape.depth)),
        v(arena.matrix(all, shape.values)),
        at(arena.take<int32_t>(all)) {}
  int64_t rows, all;  // of a range, of all
  Matrix x, v;        // [all,d], [all,e]
  int32_t* at;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Writes order [R,places]: each round's tokens by (bucket, position), then -1 for padding. A
/// bucket is argmax [Rx; -Rx], of factors the first counting least. An item of the team is a round,
/// in a LshSortScratch.
void lsh_sort(const LshShape& shape, const LshInputs& inputs, const LshBuckets& buckets,
              int32_t* order, const Team& team);

/// Writes out [N,e]: for each token one softmax over all it sees in any round, in which it sees
/// itself only where it sees nothing else; top [N] and inverse [N], such that a weight is
/// exp(score - top) inverse. Rows of padding of out are zero, those of top and inverse mean
/// nothing. An item of the team is a range of a round's chunks, in a LshScratch: the same to the
/// bit on any team.
void lsh_forward(const LshShape& shape, const LshInputs& inputs, const int32_t* order, Matrix out,
                 float* top, float* inverse, const Team& team);

/// Writes the gradients of x and v, given out and its gradient; in a LshBackwardScratch a range,
/// whose sums towards chunks beside it are added range by range.
void lsh_backward(const LshShape& shape, const LshInputs& inputs, const int32_t* order,
                  ConstMatrix out, const float* top, const float* inverse, ConstMatrix grad_out,
                  Matrix grad_x, Matrix grad_v, Arena& arena, const Team& team);

}  // namespace lra::ops::LRA_KERNELS
