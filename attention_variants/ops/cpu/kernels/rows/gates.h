// GELU and gates by a sigmoid, of rows in cache.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::LRA_KERNELS {

/// to [count] = GELU(x).
void gelu_of(Gelu form, const float* x, int64_t count, float* to);
/// to [count] = grad GELU'(x).
void gelu_backward(Gelu form, const float* x, const float* grad, int64_t count, float* to);

/// to = value σ(gate), all [rows,width].
void gate_rows(ConstMatrix value, ConstMatrix gate, int64_t rows, int64_t width, Matrix to);
/// What a gradient of its result is towards value and gate.
void gate_rows_backward(ConstMatrix value, ConstMatrix gate, ConstMatrix grad, int64_t rows,
                        int64_t width, Matrix grad_value, Matrix grad_gate);

}  // namespace lra::ops::LRA_KERNELS
