// The iteration for the inverse of a softmax matrix, Z <- Z (13I - AZ (15I - AZ (7I - AZ))) / 4
// from Z = Aᵀ / ‖A‖₁ (‖A‖∞ of a softmax is 1), for one matrix in cache; iterative_inverse.h has it
// for batches.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::LRA_KERNELS {

/// Floats of scratch, for matrices [m,m].
int64_t inverse_scratch(int64_t m);

/// z [m,m] from a [m,m], both contiguous.
void inverse(int64_t m, int64_t iterations, ConstMatrix a, Matrix z, float* scratch);

/// Floats for inverse_iterates() and, after it, inverse_backward().
int64_t inverse_backward_scratch(int64_t m, int64_t iterations);

/// The same as inverse(); leaves in `iterates` what inverse_backward() reads.
void inverse_iterates(int64_t m, int64_t iterations, ConstMatrix a, Matrix z, float* iterates);

/// Writes grad_a, given grad_z, which it spoils. The gradient passes through ‖A‖₁ as well.
void inverse_backward(int64_t m, int64_t iterations, ConstMatrix a, Matrix grad_z, Matrix grad_a,
                      float* iterates);

}  // namespace lra::ops::LRA_KERNELS
