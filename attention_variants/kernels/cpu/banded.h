// Depthwise convolution over the positions of one head, by banded (Toeplitz) matrices in cache: a
// block of 64 results is W [64, 64 + K - 1] times as many rows of the input, laid out between
// zeros. It spends (64 + K - 1) / K times the multiplications, at the rate of a matrix product.
//
// result[t] = Σ_j taps[j] x[t + j - lead(K)].
#pragma once

#include <cstdint>

#include "attention_variants/kernels/cpu/matrix.h"

namespace lra::cpu {

/// Rows of zeros before the input: (K - 1) / 2, and after it: K / 2; 0 without a kernel (K = 0).
int64_t lead(int64_t kernel);
int64_t trail(int64_t kernel);

/// Floats of scratch.
int64_t banded_scratch(int64_t kernel);

/// to [length + K - 1, width]: x [length,width] after lead(K) and before trail(K) rows of zeros,
/// with rows zero where `mask` [length] is false.
void lay_out(ConstMatrix x, const bool* mask, int64_t length, int64_t width, int64_t kernel,
             Matrix to);
/// The same with lead and trail exchanged, as for a kernel turned round.
void lay_out_turned(ConstMatrix x, const bool* mask, int64_t length, int64_t width, int64_t kernel,
                    Matrix to);

/// bands [banded_scratch]: row t of 64 holds the taps from column t on; turned round where asked.
enum class Turned { no, yes };
void make_bands(const float* taps, int64_t kernel, Turned turned, float* bands);

/// out [rows,width] += the convolution of what lay_out() made, from the same row on. With turned
/// bands and lay_out_turned() of the result's gradient: the input's gradient.
void add_banded(const float* bands, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                int64_t width, Matrix out);

/// bands += gradient [64,width] laid_outᵀ over blocks of 64 of [rows,width]: what add_taps() sums
/// along the diagonals, diagonal j to grad_taps [K] at j.
void add_band_gradient(ConstMatrix gradient, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                       int64_t width, float* bands);
void add_taps(const float* bands, int64_t kernel, float* grad_taps);

}  // namespace lra::cpu
