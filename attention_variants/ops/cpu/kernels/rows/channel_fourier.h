// Convolutions over positions by Fourier transforms, of each channel with taps of its own. Lanes
// are channels, so that a transform moves nothing between lanes. Even positions are the real parts
// and odd ones the imaginary parts of a complex transform of half the period, from which the
// transforms E and O of either follow: E_k = (Z_k + conj Z_-k) / 2, O_k = (Z_k - conj Z_-k) / 2i.
//
// A block is the channels of one register; a number of it holds the real parts of all its lanes,
// then the imaginary ones.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/fourier_plan.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// Taps [count,lanes] of which the first `ahead` reach later positions. What the last reaches from
/// the last position stays within a period.
template <class T>
struct BlockTaps {
  Rows<T> rows;
  int64_t count = 0, ahead = 0;
};

/// Whether a result is small enough to be found in a cache by who reads it. Else it goes around
/// them where it can, as writing a few columns of every row fetches all of them first.
enum class Cached { no, yes };

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// spectrum [spectrum()] = the transforms of taps over the period, divided by size, which inverse
/// transforms do not do; scratch [size].
void transform_taps(const FourierPlan& plan, const BlockTaps<const float>& taps, int64_t lanes,
                    float* spectrum, float* scratch);

/// out [length,lanes] = the convolution of x [length,lanes] with taps; scratch [size].
void filter_channels(const FourierPlan& plan, ConstMatrix x, int64_t length, int64_t lanes,
                     const float* spectrum, Matrix out, Cached cached, float* scratch);

/// grad_x = what the gradient of filter_channels()'s result is towards x; sums [spectrum()] += what
/// it is towards the transforms of taps, before that division; scratch [2 size].
void filter_channels_backward(const FourierPlan& plan, ConstMatrix x, ConstMatrix gradient,
                              int64_t length, int64_t lanes, const float* spectrum, Matrix grad_x,
                              Cached cached, float* sums, float* scratch);

/// The gradients of taps from the sums of filter_channels_backward(); scratch [size].
void spectrum_to_taps(const FourierPlan& plan, const float* sums, const BlockTaps<float>& to,
                      int64_t lanes, float* scratch);

}  // namespace lra::ops::LRA_KERNELS
