// Linear recurrences over positions, of complex states with a diagonal transition: lanes are
// states. A row holds the real parts of all states, then the imaginary ones.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// Whether a recurrence goes from the first row to the last, or from the last to the first.
enum class ScanOrder { forward, backward };

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// x [rows,2P] in place: x_t += transition x_{t-1} (x_{t+1} backward), in the order of the scan.
/// What stands before the first row is `carry` [2P], which then holds the last. With `conjugate`
/// the transition's conjugate.
void scan_rows(const float* transition, int64_t states, bool conjugate, ScanOrder order, Matrix x,
               int64_t rows, float* carry);

/// sums [2P] += Σ_t conj(x_{t-1}) g_t of rows of states x and of their gradients g, `before` [2P]
/// standing before the first in the order of the scan.
void add_transition_gradients(ConstMatrix x, ConstMatrix g, int64_t rows, int64_t states,
                              ScanOrder order, const float* before, float* sums);

}  // namespace lra::ops::LRA_KERNELS
