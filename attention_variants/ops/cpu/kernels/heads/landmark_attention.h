// Nyström attention of one head of one sample, forward and backward: landmarks by segment means,
// the iterative inverse, the two softmax attentions by tiles, and the depthwise convolution. All
// that a head reads and makes (at N = 2048 and d = 32 about 1.5 MB) stays in a core's cache; from
// memory come q, k and v, once, and to it goes the result. Where a team has threads of its own,
// each has a range of the positions, and what they add up is added up part by part.
//
// The function is that of nystrom.cpp (Xiong et al., AAAI 2021), which keeps it formula by formula.
#pragma once

#include <cstdint>
#include <optional>

#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cpu/kernels/heads/segment_means.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_tiles.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/depthwise_conv.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/team.h"

namespace lra::ops::cpu {

struct LandmarkHeadShape {
  int64_t length = 0;     // N, more than landmarks
  int64_t landmarks = 0;  // m
  int64_t depth = 0;      // d
  int64_t iterations = 0;
  int64_t kernel = 0;  // taps of the convolution; 0 = none
  SegmentMeanOver over = SegmentMeanOver::tokens;
};

/// One head: q, k and v [N,d], any row stride.
struct LandmarkHeadInputs {
  ConstMatrix q, k, v;
  const bool* mask = nullptr;          // [N]
  const float* conv_weight = nullptr;  // [kernel]
  std::optional<float> norm = {};      // where the inverse starts; none: of the head's own matrix
};

struct LandmarkHeadGradients {
  Matrix q, k, v;                // [N,d]
  float* conv_weight = nullptr;  // [kernel]
  float* norm = nullptr;         // of one that was given; null where none was
};

/// What the forward pass leaves for the backward pass, a head: landmarks, B V and of which
/// softmaxes it is made, and those of F.
struct LandmarkHeadSaved {
  LRA_INLINE LandmarkHeadSaved(const LandmarkHeadShape& shape, Arena& arena)
      : q(arena.matrix(shape.landmarks, shape.depth)),
        k(arena.matrix(shape.landmarks, shape.depth)),
        bv(arena.matrix(shape.landmarks, shape.depth)),
        b{.max = arena.take(shape.landmarks), .inverse_sum = arena.take(shape.landmarks)},
        bias(arena.take(shape.landmarks)),
        top(arena.take(shape.length)),
        inverse(arena.take(shape.length)) {}
  Matrix q, k, bv;  // [m,d]
  SoftmaxStats b;
  float *bias, *top, *inverse;  // [m], [N], [N]
};

/// Sums over the positions, [m,d] each, for every range of them: one set where there is one range.
struct LandmarkSums {
  LRA_INLINE LandmarkSums(const LandmarkHeadShape& shape, int64_t parts, Arena& arena)
      : stride(whole_lines(shape.landmarks * shape.depth)),
        depth(shape.depth),
        data(arena.take(parts * stride)) {}
  LRA_INLINE Matrix operator[](int64_t part) const { return {data + part * stride, depth}; }
  int64_t stride, depth;
  float* data;
};

/// Tokens without the padding among them, where there is some; A, its inverse and what that makes
/// of B V; B V and its softmaxes by ranges, where there are several.
struct LandmarkHeadScratch {
  LRA_INLINE LandmarkHeadScratch(const LandmarkHeadShape& shape, InnerPadding holes, int64_t parts,
                                 Arena& arena)
      : q(tokens(shape, holes, arena)),
        k(tokens(shape, holes, arena)),
        v(tokens(shape, holes, arena)),
        a(arena.matrix(shape.landmarks, shape.landmarks)),
        z(arena.matrix(shape.landmarks, shape.landmarks)),
        x(arena.matrix(shape.landmarks, shape.depth)),
        bv(shape, parts > 1 ? parts : 0, arena),
        b{.max = arena.take(parts > 1 ? parts * shape.landmarks : 0),
          .inverse_sum = arena.take(parts > 1 ? parts * shape.landmarks : 0)} {}
  LRA_INLINE static float* tokens(const LandmarkHeadShape& shape, InnerPadding holes,
                                  Arena& arena) {
    return holes == InnerPadding::yes ? arena.take(shape.length * shape.depth) : nullptr;
  }
  float *q, *k, *v;
  Matrix a, z, x;
  LandmarkSums bv;
  SoftmaxStats b;
};

/// Of one range: a tile of values between what the convolution reads beside it.
struct LandmarkHeadPartScratch {
  LRA_INLINE LandmarkHeadPartScratch(const LandmarkHeadShape& shape, Arena& arena)
      : v_tile(arena.matrix(kTile + pad_rows(shape.kernel), shape.depth)) {
    {
      const Arena::Frame frame(arena);
      InverseIterates(shape.landmarks, 1, arena);
    }
    const Arena::Frame frame(arena);
    SmallAttentionScratch({.few = shape.landmarks, .depth = shape.depth, .values = shape.depth},
                          Pass::forward, arena);
  }
  Matrix v_tile;
};

/// The same and gradients, backward.
struct LandmarkHeadBackwardScratch : LandmarkHeadScratch {
  LRA_INLINE LandmarkHeadBackwardScratch(const LandmarkHeadShape& shape, InnerPadding holes,
                                         int64_t parts, Arena& arena)
      : LandmarkHeadScratch(shape, holes, /*parts=*/1, arena),
        g(tokens(shape, holes, arena)),
        grad_z(arena.matrix(shape.landmarks, shape.landmarks)),
        grad_a(arena.matrix(shape.landmarks, shape.landmarks)),
        grad_x(shape, parts, arena),
        grad_q(shape, parts, arena),
        grad_k(shape, parts, arena),
        taps(parts * shape.kernel, arena),
        iterates(shape.landmarks, shape.iterations, arena) {}
  float* g;
  Matrix grad_z, grad_a;
  LandmarkSums grad_x, grad_q, grad_k;
  ConvWeightSums taps;
  InverseIterates iterates;
};

struct LandmarkHeadBackwardPartScratch {
  LRA_INLINE LandmarkHeadBackwardPartScratch(const LandmarkHeadShape& shape, Arena& arena)
      : v_tile(arena.matrix(kTile + pad_rows(shape.kernel), shape.depth)),
        g_tile(arena.matrix(kTile + pad_rows(shape.kernel), shape.depth)) {
    {
      const Arena::Frame frame(arena);
      InverseGradients(shape.landmarks, arena);
    }
    const Arena::Frame frame(arena);
    SmallAttentionScratch({.few = shape.landmarks, .depth = shape.depth, .values = shape.depth},
                          Pass::backward, arena);
  }
  Matrix v_tile, g_tile;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Writes out [N,d], rows of padded positions zero, and what `saved` has room for. Takes
/// LandmarkHeadScratch of `arena`, and of the team's LandmarkHeadPartScratch.
void landmark_attention_forward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs,
                                Matrix out, const LandmarkHeadSaved& saved, Arena& arena,
                                const Team& team);

/// Writes all gradients, given that of out [N,d]. Takes LandmarkHeadBackwardScratch and
/// LandmarkHeadBackwardPartScratch.
void landmark_attention_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs,
                                 const LandmarkHeadSaved& saved, ConstMatrix grad_out,
                                 const LandmarkHeadGradients& gradients, Arena& arena,
                                 const Team& team);

}  // namespace lra::ops::LRA_KERNELS
