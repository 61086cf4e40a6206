// Depthwise convolution over the positions of one head, a tile at a time that is laid out with the
// rows beside it: result[t] = Σ_j taps[j] x[t + j - pad_before(K)].
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// How taps are taken; from the last to the first pad_before() and pad_after() are exchanged, too.
enum class KernelOrder { as_given, reversed };

/// Rows that the rows of a tile read beside their own.
LRA_INLINE int64_t pad_rows(int64_t kernel) { return kernel > 0 ? kernel - 1 : 0; }

/// The sums towards the taps' gradient [kernel,kParts]: each tap's in parts.
struct ConvWeightSums {
  static constexpr int64_t kParts = 16;
  LRA_INLINE ConvWeightSums(int64_t kernel, Arena& arena)
      : count(kernel * kParts), data(arena.take(count)) {}
  int64_t count;
  float* data;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Rows that a row of the result reads before its own: (K - 1) / 2, and after it: K / 2; 0 without
/// a kernel (K = 0).
int64_t pad_before(int64_t kernel);
int64_t pad_after(int64_t kernel);

/// [before + rows + after, width]: rows [begin - before, begin + rows + after) of x [length,width],
/// and zeros where it has none: in x, or where it has not all of them in `copy`.
ConstMatrix pad_tile(ConstMatrix x, int64_t length, int64_t begin, int64_t rows, int64_t width,
                     int64_t kernel, KernelOrder order, Matrix copy);

/// out [rows,width] += the convolution of what pad_tile() made. Reversed, of the result's gradient:
/// the input's gradient.
void add_convolution(const float* conv_weight, int64_t kernel, KernelOrder order,
                     ConstMatrix laid_out, int64_t rows, int64_t width, Matrix out);

/// sums, of ConvWeightSums, += those of the rows of a result's gradient [rows,width] and of what
/// pad_tile() made.
void add_conv_weight_grad(ConstMatrix gradient, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                          int64_t width, float* sums);
/// grad_taps [K]: the parts of each tap added up.
void tap_gradients(const float* sums, int64_t kernel, float* grad_taps);

}  // namespace lra::ops::LRA_KERNELS
