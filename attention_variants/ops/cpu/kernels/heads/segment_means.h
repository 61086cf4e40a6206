// Landmarks by segment means of the positions of one head, forward and backward.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cpu {

/// `count` segments of positions [0, length), the longer ones last; segment i is [begin(i),
/// begin(i + 1)).
struct Segments {
  int64_t count, shorter, size;
  LRA_INLINE Segments(int64_t length, int64_t segments)
      : count(segments), shorter(segments - length % segments), size(length / segments) {}
  LRA_INLINE int64_t begin(int64_t i) const { return i * size + (i > shorter ? i - shorter : 0); }
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// means [count,width] of the tokens of each segment of x, those where `mask` is true; bias [count]
/// is 0, or -inf where `over` is tokens and there is none.
void segment_means(const Segments& segments, SegmentMeanOver over, ConstMatrix x, const bool* mask,
                   int64_t width, Matrix means, float* bias);

/// grad_x [length,width] += what reaches its rows from the means' gradient.
void segment_means_backward(const Segments& segments, SegmentMeanOver over, const bool* mask,
                            int64_t width, ConstMatrix grad_means, Matrix grad_x);

}  // namespace lra::ops::LRA_KERNELS
