// The iteration for the inverse of a softmax matrix, Z <- Z (13I - AZ (15I - AZ (7I - AZ))) / 4
// from Z = Aᵀ / ‖A‖₁ (‖A‖∞ of a softmax is 1), for one matrix in cache; iterative_inverse.h has it
// for batches.
#pragma once

#include <cstdint>

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

/// z [m,m] from a [m,m], both contiguous. Takes InverseIterates of one iteration.
void inverse(int64_t m, int64_t iterations, ConstMatrix a, Matrix z, Arena& arena);

/// The same; leaves in `iterates` what inverse_backward() reads.
void inverse_iterates(int64_t iterations, ConstMatrix a, Matrix z, const InverseIterates& iterates);

/// Writes grad_a; overwrites grad_z. The gradient passes through ‖A‖₁ as well.
void inverse_backward(int64_t iterations, ConstMatrix a, Matrix grad_z, Matrix grad_a,
                      const InverseIterates& iterates, Arena& arena);

}  // namespace lra::ops::LRA_KERNELS
