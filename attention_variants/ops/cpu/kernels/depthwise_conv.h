// Depthwise convolution over the positions of one head, a tile at a time that is laid out with the
// rows beside it: result[t] = Σ_j taps[j] x[t + j - lead(K)].
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/gemm.h"

namespace lra::cpu {

/// Rows that a row of the result reads before its own: (K - 1) / 2, and after it: K / 2; 0 without
/// a kernel (K = 0).
int64_t lead(int64_t kernel);
int64_t trail(int64_t kernel);

/// Whether taps are taken from the last to the first, and lead and trail exchanged.
enum class Turned { no, yes };

/// to [lead + rows + trail, width]: rows [begin - lead, begin + rows + trail) of x [length,width],
/// and zeros where it has none; nothing without a kernel.
void lay_out(ConstMatrix x, int64_t length, int64_t begin, int64_t rows, int64_t width,
             int64_t kernel, Turned turned, Matrix to);

/// out [rows,width] += the convolution of what lay_out() made. Turned, of the result's gradient:
/// the input's gradient.
void add_convolution(const float* taps, int64_t kernel, Turned turned, ConstMatrix laid_out,
                     int64_t rows, int64_t width, Matrix out);

/// Floats of the sums towards the taps' gradient: each tap's in parts.
int64_t tap_sum_floats(int64_t kernel);
/// sums += those of the rows of a result's gradient [rows,width] and of what lay_out() made.
void add_tap_sums(ConstMatrix gradient, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                  int64_t width, float* sums);
/// grad_taps [K]: the parts of each tap added up.
void tap_gradients(const float* sums, int64_t kernel, float* grad_taps);

}  // namespace lra::cpu
