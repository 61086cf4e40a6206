// Attention whose kernel is a product of features, of one head of one sample, forward and backward,
// a tile of positions at a time, ranges of them by a team: S = Σ_j φ(k_j) [v_j 1] over the tokens,
// and each query's result is φ(q) S, its first part divided by its last number. No features of all
// positions are stored; the backward pass computes them anew.
#pragma once

#include <cstdint>
#include <optional>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/team.h"
#include "attention_variants/ops/cpu/kernels/rows/transpose.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cpu {

struct LinearHeadShape {
  FeatureMap map = FeatureMap::elu;
  int64_t length = 0;                 // N
  int64_t depth = 0;                  // d
  int64_t width = 0;                  // f features
  const float* projection = nullptr;  // W [f,d], of relu and softmax
  bool rounded = false;  // q, k and W hold bfloat16 numbers, whose products float32 holds exactly
  float norm = 0;
  float offset = 0;
  bool normalise = true;  // false: no denominator, S times `share`
  float share = 1;
  float denominator_min = 0;   // of the denominator
  float epsilon = 0;           // added to the denominator
  float guard = 0;             // denominators of at most it get twice as much added
  bool count_padding = false;  // padded keys count as tokens with k = v = 0
  MaxGradient max_gradient = MaxGradient::attached;

  // Floats of LinearHeadState::sums.
  LRA_INLINE int64_t sums() const { return width * (depth + 1); }
};

struct LinearHeadInputs {
  ConstMatrix q, k, v;                // [N,d]
  const bool* mask = nullptr;         // [N]
  const float* phases = nullptr;      // [N,2] sin θ, cos θ, of cosine
  std::optional<float> largest = {};  // c of the keys, where heads share one
};

/// The largest number of W k over the keys that are seen, and where it stands.
struct Largest {
  float value = 0;  // -inf where nothing is seen
  int64_t row = 0, feature = 0;
};

/// What the backward pass needs of the forward pass.
struct LinearHeadState {
  float* sums = nullptr;          // [f,d] of S, then [f] of its last column
  float* largest = nullptr;       // [1] c of the keys, of softmax
  int64_t* where = nullptr;       // [2] its position and feature, where it is the head's own
  float* denominators = nullptr;  // [N]
};

struct LinearHeadGradients {
  Matrix q, k, v;            // [N,d]
  float* largest = nullptr;  // of a c that was given; null where none was
};

/// Positions a tile: with 256 features 128 KiB.
inline constexpr int64_t kFeatureTile = 128;

/// What the keys of a range add up to.
struct KeySums {
  float *sums, *values;         // as LinearHeadState::sums; [d] of the values
  float largest;                // as LinearHeadState's
  int64_t row, feature, count;  // of the largest; keys
};

/// What queries add up to in a range, backward.
struct QuerySums {
  float *s, *z, *rows;  // [f,d] and [f], the gradients of S and of its last column; [d] of results
  float denominators;   // of the denominators
};

/// Wᵀ; a row of sums; what ranges of keys add up to, the first in LinearHeadState.
struct LinearHeadScratch {
  LRA_INLINE LinearHeadScratch(const LinearHeadShape& shape, int64_t parts, Arena& arena)
      : w(transposed(shape, arena)),
        row(arena.take(shape.depth)),
        sums(arena.take((parts - 1) * whole_lines(shape.sums()))),
        values(arena.matrix(parts, shape.depth)),
        keys(arena.take<KeySums>(parts)) {}
  LRA_INLINE static Matrix transposed(const LinearHeadShape& shape, Arena& arena) {
    const int64_t stride = transposed_stride(shape.width);
    return {arena.take(shape.depth * stride), stride};
  }
  Matrix w;     // [d,f]
  float* row;   // [d]
  float* sums;  // of the parts behind the first
  Matrix values;
  KeySums* keys;
};

/// Of one range: features and rows of a tile.
struct LinearHeadPartScratch {
  LRA_INLINE LinearHeadPartScratch(const LinearHeadShape& shape, Arena& arena)
      : e(arena.take(kFeatureTile * shape.width)),
        x(arena.take(kFeatureTile * shape.depth)),
        v(arena.take(kFeatureTile * shape.depth)) {}
  float *e, *x, *v;  // [kFeatureTile,f], [kFeatureTile,d] twice
};

/// What feature_largest() takes.
struct LinearHeadLargestScratch {
  LRA_INLINE LinearHeadLargestScratch(const LinearHeadShape& shape, Arena& arena)
      : w(LinearHeadScratch::transposed(shape, arena)), part(shape, arena) {}
  Matrix w;  // [d,f]
  LinearHeadPartScratch part;
};

/// The same and gradients, backward.
struct LinearHeadBackwardScratch {
  LRA_INLINE LinearHeadBackwardScratch(const LinearHeadShape& shape, int64_t parts, Arena& arena)
      : w(LinearHeadScratch::transposed(shape, arena)),
        s(LinearHeadScratch::transposed(shape, arena)),
        row(arena.take(shape.depth)),
        sums(arena.take(parts * whole_lines(shape.sums() + shape.depth))),
        queries(arena.take<QuerySums>(parts)),
        grad_largest(arena.take(parts)) {}
  Matrix w, s;  // [d,f] both
  float* row;   // [d]
  float* sums;  // of the parts
  QuerySums* queries;
  float* grad_largest;  // [parts]
};

struct LinearHeadBackwardPartScratch : LinearHeadPartScratch {
  LRA_INLINE LinearHeadBackwardPartScratch(const LinearHeadShape& shape, Arena& arena)
      : LinearHeadPartScratch(shape, arena),
        grad_e(arena.matrix(kFeatureTile, shape.width)),
        grad_row(arena.matrix(kFeatureTile, shape.depth)),
        grad_denominators(arena.take(kFeatureTile)),
        largest(arena.take(kFeatureTile)) {}
  Matrix grad_e, grad_row;             // [kFeatureTile,f], [kFeatureTile,d]
  float *grad_denominators, *largest;  // [kFeatureTile]
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Writes out [N,d], rows of padded positions zero, and `state`. Takes LinearHeadScratch of
/// `arena`, and of the team's LinearHeadPartScratch.
void linear_attention_forward(const LinearHeadShape& shape, const LinearHeadInputs& inputs,
                              Matrix out, const LinearHeadState& state, Arena& arena,
                              const Team& team);

/// Writes all gradients, given out and its gradient. Takes LinearHeadBackwardScratch and
/// LinearHeadBackwardPartScratch.
void linear_attention_backward(const LinearHeadShape& shape, const LinearHeadInputs& inputs,
                               ConstMatrix out, const LinearHeadState& state, ConstMatrix grad_out,
                               const LinearHeadGradients& grad, Arena& arena, const Team& team);

/// c of this head's own keys, of softmax. Takes LinearHeadLargestScratch.
Largest feature_largest(const LinearHeadShape& shape, const LinearHeadInputs& inputs, Arena& arena);

}  // namespace lra::ops::LRA_KERNELS
