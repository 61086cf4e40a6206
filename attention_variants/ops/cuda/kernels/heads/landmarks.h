// Landmarks of Nyström attention (Xiong et al., AAAI 2021): means of queries and of keys over
// segments of positions, forward and backward.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cuda {

/// Which positions the m segments of N positions have.
enum class Segments {
  disjoint,     // the first m - N mod m segments ⌊N/m⌋, the others one more
  overlapping,  // ⌊iN/m⌋..⌈(i+1)N/m⌉, as adaptive pooling
};

/// The landmarks of q and k. Without a mask every position is a token.
struct LandmarksParams {
  Storage storage;  // of q, k, their landmarks and all gradients
  Segments segments;
  SegmentMeanOver over;
  int batch, heads, length, depth, landmarks;  // B, H, N, d, m
  Heads q, k;                                  // [B,H,N,d]; rows of padding are not read
  const bool* mask;                            // [B,N]; null: all are tokens
  void *q_means, *k_means;                     // [B,H,m,d]
  float* factors;  // [B,m]: what a segment's sum is multiplied by; 0 where it has no token
  bool* real;      // [B,m]: whether a landmark is the mean of something; null: not asked for

  // Backward, with these factors.
  const void *grad_q_means, *grad_k_means;  // [B,H,m,d]
  MutableHeads grad_q, grad_k;              // [B,H,N,d], added to; rows of padding are not touched
};

/// Writes q_means, k_means, factors and real. Any m, any N.
void launch_landmarks_forward(const LandmarksParams& params, Stream stream);

/// Given factors, adds to grad_q and grad_k.
void launch_landmarks_backward(const LandmarksParams& params, Stream stream);

}  // namespace lra::ops::cuda
