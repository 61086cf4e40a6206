// Nyström attention with fewer landmarks than tokens: out = F (Z (B V)) + conv(V) with F =
// softmax(s Q K̃ᵀ), A = softmax(s Q̃ K̃ᵀ), B = softmax(s Q̃ Kᵀ), Z ≈ A⁺.
//
// Xiong et al., "Nyströmformer: A Nyström-Based Algorithm for Approximating Self-Attention", AAAI
// 2021.
#pragma once

#include <cstdint>
#include <string>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Where the norm of the iteration's first Z is taken: of each matrix, or the maximum over the
/// batch.
enum class InverseStart { per_matrix, global };
constexpr auto names(InverseStart) { return std::array{"per_matrix", "global"}; }

/// How padded positions enter the landmarks: not at all, as zeros, or as they are.
enum class LandmarkPadding { masked, zeroed, ignored };
constexpr auto names(LandmarkPadding) { return std::array{"masked", "zeroed", "ignored"}; }

/// What the landmarks Q̃, K̃ are made of.
enum class LandmarkKind {
  segment_means,  // means of segments of ⌊N/m⌋ positions first, then of one more
  adaptive_pool,  // means of the segments ⌊iN/m⌋..⌈(i+1)N/m⌉
  strided,        // tokens, evenly spaced
  random,         // tokens, drawn without repetition
};
constexpr auto names(LandmarkKind) {
  return std::array{"segment_means", "adaptive_pool", "strided", "random"};
}

struct LandmarkOptions {
  int64_t landmarks = 64;  // m, fewer than N
  LandmarkKind kind = LandmarkKind::segment_means;
  uint64_t seed = 0;           // of random ones
  bool exact_inverse = false;  // by singular values, not by iteration
  int64_t iterations = 6;
  InverseStart start = InverseStart::per_matrix;
  LandmarkPadding padding = LandmarkPadding::masked;
};

struct LandmarkShape {
  int64_t batch = 0, heads = 0, length = 0, head_dim = 0;
  int64_t conv_kernel = 0;  // K; 0 = no convolution
  int64_t element_size = 4;
  LandmarkOptions options = {};
};

/// q, k, v [B,H,N,d], mask [B,N] bool, conv_weight [H,K] (K = 0: no convolution) -> [B,H,N,d] with
/// the rows of padded positions zero. The own kernel is differentiable once.
struct LandmarkCall {
  using Result = torch::Tensor;
  using Shape = LandmarkShape;
  torch::Tensor q, k, v, mask, conv_weight;
  LandmarkOptions options = {};

  Shape shape() const {
    return {.batch = q.size(0),
            .heads = q.size(1),
            .length = q.size(2),
            .head_dim = q.size(3),
            .conv_kernel = conv_weight.size(1),
            .element_size = q.element_size(),
            .options = options};
  }
};

torch::Tensor landmark_attention(Kernels asked, const LandmarkCall& call);

/// Bytes above the inputs without gradients, the result among them, where no padding stands before
/// a token.
int64_t landmark_attention_bytes(Kernels asked, const LandmarkShape& shape);

/// Floating-point operations of one in which every row is a token, a multiply-add two; -1: no
/// account, of an exact inverse.
int64_t landmark_attention_flops(const LandmarkShape& shape);

}  // namespace lra::ops
