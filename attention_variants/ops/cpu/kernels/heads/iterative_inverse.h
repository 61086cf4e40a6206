// The iteration for the inverse of a softmax matrix, Z <- Z (13I - AZ (15I - AZ (7I - AZ))) / 4
// from Z = Aᵀ / ‖A‖₁ (‖A‖∞ of a softmax is 1), or from Aᵀ / a norm that is given, for one matrix in
// cache; iterative_inverse.h has it for batches.
#pragma once

#include <cstdint>
#include <optional>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// What one iteration makes on its way, [m,m] each: Z; A Z; 7I - AZ; 15I - AZ (..); 13I - AZ (..).
struct InverseIterate {
  static constexpr int64_t kParts = 5;
  LRA_INLINE InverseIterate(int64_t m, float* at)
      : z{at, m},
        az{at + m * m, m},
        seven{at + 2 * m * m, m},
        fifteen{at + 3 * m * m, m},
        thirteen{at + 4 * m * m, m} {}
  Matrix z, az, seven, fifteen, thirteen;
};

/// Those of `count` iterations, and the sums of A's columns [m].
struct InverseIterates {
  LRA_INLINE InverseIterates(int64_t size, int64_t count, Arena& arena)
      : m(size),
        first(arena.take(count * InverseIterate::kParts * m * m)),
        column_sums(arena.take(m)) {}
  LRA_INLINE InverseIterate operator[](int64_t i) const {
    return {m, first + i * InverseIterate::kParts * m * m};
  }
  int64_t m;
  float *first, *column_sums;
};

/// What inverse_backward() takes: [m,m] each.
struct InverseGradients {
  LRA_INLINE InverseGradients(int64_t m, Arena& arena)
      : az(arena.matrix(m, m)),
        outer(arena.matrix(m, m)),
        inner(arena.matrix(m, m)),
        next(arena.matrix(m, m)) {}
  Matrix az, outer, inner, next;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// ‖A‖₁ of a contiguous softmax [m,m], the largest sum of a column; column_sums [m] gets those.
float column_norm(int64_t m, ConstMatrix a, float* column_sums);

/// z [m,m] from a [m,m], both contiguous, by way of `norm`, or without one a's own. Takes
/// InverseIterates of one iteration.
void inverse(int64_t m, int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix z,
             Arena& arena);

/// The same; leaves in `iterates` what inverse_backward() reads.
void inverse_iterates(int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix z,
                      const InverseIterates& iterates);

/// Writes grad_a; overwrites grad_z. The gradient passes through a's own norm; returns that of a
/// norm that was given.
float inverse_backward(int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix grad_z,
                       Matrix grad_a, const InverseIterates& iterates, Arena& arena);

/// grad_a += what reaches it through column_norm(), given the norm's gradient.
void column_norm_backward(int64_t m, const float* column_sums, float grad_norm, Matrix grad_a);

}  // namespace lra::ops::LRA_KERNELS
