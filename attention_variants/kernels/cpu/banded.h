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

/// out [length,width] += the convolution of what lay_out() made.
void banded(ConstMatrix laid_out, const float* taps, int64_t kernel, int64_t length, int64_t width,
            Matrix out, float* scratch);

/// Given what lay_out() made of the input and lay_out_turned() of the gradient: adds to grad_x
/// [length,width] and to grad_taps [K].
void banded_backward(ConstMatrix laid_out, ConstMatrix turned, const float* taps, int64_t kernel,
                     int64_t length, int64_t width, Matrix grad_x, float* grad_taps,
                     float* scratch);

}  // namespace lra::cpu
