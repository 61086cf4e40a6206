// The matrices of Nyström attention: landmarks Q̃, K̃, the small matrix A = softmax(s Q̃ K̃ᵀ) and the
// product F (Z (B V)) with any Z ≈ A⁺. The variant and the experiments on these matrices run the
// same code.
//
// Xiong et al., "Nyströmformer: A Nyström-Based Algorithm for Approximating Self-Attention", AAAI
// 2021.
#pragma once

#include "attention_variants/ops/landmark_attention.h"
#include "attention_variants/torch.h"

namespace lra::ops::reference {

struct LandmarkMatrixOptions {
  int64_t count = 64;  // m, at most N
  LandmarkKind kind = LandmarkKind::segment_means;
  uint64_t seed = 0;  // of random ones
};

/// The landmarks of a batch. Samples may have fewer real ones than m; which are real is the same
/// for Q and K.
struct Landmarks {
  torch::Tensor q, k;  // [B,H,m,d]
  torch::Tensor real;  // [B,m] bool; undefined = all
};

/// The landmarks of q and k [B,H,N,d]. `tokens` [B,N] bool: only these positions count, and q and k
/// are zero at the others; undefined: all positions count.
Landmarks make_landmarks(const torch::Tensor& q, const torch::Tensor& k,
                         const torch::Tensor& tokens, const LandmarkMatrixOptions& options);

/// A = softmax(s Q̃ K̃ᵀ) [B,H,m,m], with zero rows and columns at landmarks that are not real; in
/// float64 for float64 and in float32 for all other types, under autocast too: inverting
/// ill-conditioned matrices loses the result in bfloat16, and they are small.
torch::Tensor landmark_matrix(const Landmarks& landmarks);

/// Z ≈ A⁺ [B,H,m,m] of a softmax, by `iterations` of iterative_inverse() from Aᵀ / (‖A‖₁ ‖A‖∞), in
/// the type of A.
torch::Tensor landmark_inverse(const torch::Tensor& a, int64_t iterations,
                               InverseStart start = InverseStart::per_matrix);

/// Z = A⁺ [B,H,m,m] by singular values.
torch::Tensor exact_landmark_inverse(const torch::Tensor& a);

/// F (Z (B V)) [B,H,N,e] of v [B,H,N,e], z [B,H,m,m] of the type of landmark_matrix() and mask
/// [B,N] bool, with F = softmax(s Q K̃ᵀ) and B = softmax(s Q̃ Kᵀ). Neither is stored.
torch::Tensor landmark_product(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask,
                               const Landmarks& landmarks, const torch::Tensor& z);

}  // namespace lra::ops::reference
