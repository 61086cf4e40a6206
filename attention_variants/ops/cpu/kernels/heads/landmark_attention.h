// Nyström attention of one head of one sample, forward and backward: landmarks by segment means,
// the iterative inverse of each matrix by itself, the two softmax attentions by tiles, and the
// depthwise convolution. All that a head reads and makes (at N = 2048 and d = 32 about 1.5 MB)
// stays in a core's cache; from memory come q, k and v, once, and to it goes the result.
//
// The function is that of nystrom.cpp (Xiong et al., AAAI 2021), which keeps it formula by formula.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_tiles.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/depthwise_conv.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"

namespace lra::ops::cpu {

struct NystromShape {
  int64_t length = 0;     // N, more than landmarks
  int64_t landmarks = 0;  // m
  int64_t depth = 0;      // d
  int64_t iterations = 0;
  int64_t kernel = 0;  // taps of the convolution; 0 = none
};

/// One head: q, k and v [N,d], any row stride.
struct NystromInputs {
  ConstMatrix q, k, v;
  const bool* mask = nullptr;          // [N]
  const float* conv_weight = nullptr;  // [kernel]
};

struct NystromGradients {
  Matrix q, k, v;                // [N,d]
  float* conv_weight = nullptr;  // [kernel]
};

/// What the forward pass leaves for the backward pass, a head: landmarks, B V and of which
/// softmaxes it is made, and those of F.
struct NystromSaved {
  LRA_INLINE NystromSaved(const NystromShape& shape, Arena& arena)
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

/// Tokens without the padding among them, where there is some; a tile of values between what the
/// convolution reads beside it; A, its inverse and what that makes of B V.
struct NystromScratch {
  LRA_INLINE NystromScratch(const NystromShape& shape, InnerPadding holes, Pass pass, Arena& arena)
      : q(tokens(shape, holes, arena)),
        k(tokens(shape, holes, arena)),
        v(tokens(shape, holes, arena)),
        v_tile(arena.matrix(kTile + pad_rows(shape.kernel), shape.depth)),
        a(arena.matrix(shape.landmarks, shape.landmarks)),
        z(arena.matrix(shape.landmarks, shape.landmarks)),
        x(arena.matrix(shape.landmarks, shape.depth)) {
    if (pass == Pass::backward) return;
    {
      const Arena::Frame frame(arena);
      InverseIterates(shape.landmarks, 1, arena);
    }
    const Arena::Frame frame(arena);
    SmallAttentionScratch(shape.landmarks, Pass::forward, arena);
  }
  LRA_INLINE static float* tokens(const NystromShape& shape, InnerPadding holes, Arena& arena) {
    return holes == InnerPadding::yes ? arena.take(shape.length * shape.depth) : nullptr;
  }
  float *q, *k, *v;
  Matrix v_tile, a, z, x;
};

/// The same and gradients, backward.
struct NystromBackwardScratch : NystromScratch {
  LRA_INLINE NystromBackwardScratch(const NystromShape& shape, InnerPadding holes, Arena& arena)
      : NystromScratch(shape, holes, Pass::backward, arena),
        g(tokens(shape, holes, arena)),
        g_tile(arena.matrix(kTile + pad_rows(shape.kernel), shape.depth)),
        grad_z(arena.matrix(shape.landmarks, shape.landmarks)),
        grad_a(arena.matrix(shape.landmarks, shape.landmarks)),
        grad_x(arena.matrix(shape.landmarks, shape.depth)),
        grad_q(arena.matrix(shape.landmarks, shape.depth)),
        grad_k(arena.matrix(shape.landmarks, shape.depth)),
        iterates(shape.landmarks, shape.iterations, arena) {
    {
      const Arena::Frame frame(arena);
      ConvWeightSums(shape.kernel, arena);
      SmallAttentionScratch(shape.landmarks, Pass::backward, arena);
    }
    const Arena::Frame frame(arena);
    InverseGradients(shape.landmarks, arena);
  }
  float* g;
  Matrix g_tile, grad_z, grad_a, grad_x, grad_q, grad_k;
  InverseIterates iterates;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Writes out [N,d], rows of padded positions zero, and what `saved` has room for.
void nystrom_forward(const NystromShape& shape, const NystromInputs& inputs, Matrix out,
                     const NystromSaved& saved, Arena& arena);

/// Writes all gradients, given that of out [N,d].
void nystrom_backward(const NystromShape& shape, const NystromInputs& inputs,
                      const NystromSaved& saved, ConstMatrix grad_out,
                      const NystromGradients& gradients, Arena& arena);

}  // namespace lra::ops::LRA_KERNELS
