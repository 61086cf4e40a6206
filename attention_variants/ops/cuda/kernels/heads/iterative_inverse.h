// The iteration for the pseudo-inverse of softmax matrices, Z <- Z (13I - AZ (15I - AZ (7I - AZ)))
// / 4 from Z = Aᵀ / ‖A‖₁ (‖A‖∞ of a softmax is 1), forward and backward, for a batch of small ones
// (Razavi et al., ICACSIS 2014).
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

inline constexpr int kMostSquare = 128;
/// Up to it matrices fit into the shared memory of all GPUs.
inline constexpr int kSmallSquare = 32;
/// Below it ‖A‖₁ is zero: that of a sample with no landmark at all.
inline constexpr float kLeastNorm = 0.5F;

/// Rows and columns that an m x m matrix takes here, m <= kMostSquare; zero beyond m.
constexpr int square_size(int m) {
  return m <= kSmallSquare ? kSmallSquare : m <= 64 ? 64 : kMostSquare;
}

/// n matrices of m x m, s = square_size(m).
struct InverseParams {
  int matrices, m, iterations;
  bool global_start;   // whether ‖A‖₁ is the largest of all, or each matrix has its own
  const float* a;      // [n,s,s]
  const float* norms;  // [n], ‖A‖₁; 0 of a matrix that is zero
  int kept;            // iterations + 1 where a backward pass follows, else 1
  float* z;            // [kept,n,s,s]: Z before each iteration, and the result
  float* scratch;      // inverse_scratch() floats
  // Backward.
  const float* grad_z;  // [n,m,m]
  float* grad_a;        // [n,s,s], where the norm is a constant
  float* along;         // [n], the sum of A times the gradient of Z0ᵀ
};

inline constexpr int kInverseScratchMatrices =
    4;  // of a matrix that does not fit into shared memory

/// Floats of scratch of a pass.
inline int64_t inverse_scratch(int64_t matrices, int64_t m, bool backward) {
  const int64_t each = int64_t{kInverseScratchMatrices} * kMostSquare * kMostSquare;
  return backward && square_size(static_cast<int>(m)) == kMostSquare ? matrices * each : 0;
}

/// Writes z.
void launch_inverse_forward(const InverseParams& params, Stream stream);

/// Given all of z, writes grad_a and along, from which launch_landmark_matrix_backward() takes the
/// gradient of the norm.
void launch_inverse_backward(const InverseParams& params, Stream stream);

}  // namespace lra::ops::cuda
