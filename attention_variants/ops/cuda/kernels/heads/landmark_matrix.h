// The small matrix of Nyström attention, A = softmax(s Q̃ K̃ᵀ), and the norm that its inverse starts
// from, forward and backward.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// m landmarks, m <= kMostSquare; s = square_size(m).
struct LandmarkMatrixParams {
  Storage storage;
  int batch, heads, landmarks, depth;  // B, H, m, d
  float scale;
  const void *q, *k;  // [B,H,m,d]
  const bool* real;   // [B,m]: rows and columns of the others are zero; null: all are
  float* a;           // [B,H,s,s], zero beyond m
  float* norms;       // [B,H], the largest sums of a column
  // Backward, given those of launch_inverse_backward().
  bool global_start;
  const float *grad_a, *along;  // [B,H,s,s], [B,H]
  void *grad_q, *grad_k;        // [B,H,m,d], added to
};

/// Writes a and norms.
void launch_landmark_matrix_forward(const LandmarkMatrixParams& params, Stream stream);

/// Adds to grad_q and grad_k.
void launch_landmark_matrix_backward(const LandmarkMatrixParams& params, Stream stream);

}  // namespace lra::ops::cuda
