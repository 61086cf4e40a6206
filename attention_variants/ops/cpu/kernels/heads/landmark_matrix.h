// A = softmax(s Q̃ K̃ᵀ) [m,m] of one head's landmarks, and ‖A‖₁ where it is made for itself: of heads
// that share the start of their inverses.
#pragma once

#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// What landmark_norm() makes on its way, and gradients: [m,d], [m,m] and [m].
struct LandmarkHeadNormScratch {
  LRA_INLINE LandmarkHeadNormScratch(const LandmarkHeadShape& shape, Arena& arena)
      : q(arena.matrix(shape.landmarks, shape.depth)),
        k(arena.matrix(shape.landmarks, shape.depth)),
        grad(arena.matrix(shape.landmarks, shape.depth)),
        a(arena.matrix(shape.landmarks, shape.landmarks)),
        grad_a(arena.matrix(shape.landmarks, shape.landmarks)),
        bias(arena.take(shape.landmarks)),
        column_sums(arena.take(shape.landmarks)) {}
  Matrix q, k, grad, a, grad_a;
  float *bias, *column_sums;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// s.
float landmark_scale(const LandmarkHeadShape& shape);

/// Writes a [m,m] of the landmarks q and k [m,d]; `bias` [m] is -inf at absent ones, whose rows and
/// columns are zero.
void landmark_matrix(const LandmarkHeadShape& shape, ConstMatrix q, ConstMatrix k,
                     const float* bias, Matrix a);

/// ‖A‖₁, from q, k and mask. Takes LandmarkHeadNormScratch.
float landmark_norm(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs, Arena& arena);

/// Adds to those of q and k [N,d] what reaches them through landmark_norm(), given its gradient.
/// Takes LandmarkHeadNormScratch.
void landmark_norm_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs,
                            float grad_norm, const LandmarkHeadGradients& gradients, Arena& arena);

}  // namespace lra::ops::LRA_KERNELS
