// Nyström attention on CPUs as one operator; see cpu/nystrom_head.h.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

struct LandmarkOptions {
  int64_t landmarks = 64;  // m, fewer than N
  int64_t iterations = 6;  // of the inverse
};

/// Nyström attention with masked segment means, each matrix inverted by iteration by itself: q, k,
/// v [B,H,N,d] float32 on a CPU, mask [B,N] bool, taps [H,K] of the convolution (K = 0:
/// none) -> [B,H,N,d], laid out as [B,N,H,d]; rows of padded positions are zero. Differentiable
/// once.
torch::Tensor landmark_attention(const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v, const torch::Tensor& mask,
                                 const torch::Tensor& conv_weight, const LandmarkOptions& options);

/// Bytes that landmark_attention() holds above its inputs without gradients, the result among them,
/// where no padding stands before a token.
int64_t landmark_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                                 int64_t conv_weight, const LandmarkOptions& options);

}  // namespace lra::ops
