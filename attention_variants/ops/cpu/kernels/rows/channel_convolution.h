// Convolutions over positions, of each channel with taps of its own: lanes are channels.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::LRA_KERNELS {

/// out [rows,width] = rows [begin, begin + rows) of Σ_j taps[j] x[t + ahead - j], taps
/// [count,width] and x [length,width] zero outside.
void channel_convolution(ConstMatrix taps, int64_t count, int64_t ahead, ConstMatrix x,
                         int64_t length, int64_t width, int64_t begin, int64_t rows, Matrix out);

/// sums [count,width] += Σ_t gradient[t] x[t + ahead - j], both [length,width].
void add_tap_gradients(ConstMatrix gradient, ConstMatrix x, int64_t length, int64_t width,
                       int64_t count, int64_t ahead, Matrix sums);

}  // namespace lra::ops::LRA_KERNELS
