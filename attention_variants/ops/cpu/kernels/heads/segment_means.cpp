#include "attention_variants/ops/cpu/kernels/heads/segment_means.h"

#include <algorithm>
#include <limits>

namespace lra::ops::cpu::LRA_ISA {
namespace {

int64_t divisor_of(SegmentMeanOver over, const bool* mask, int64_t begin, int64_t end) {
  return over == SegmentMeanOver::tokens ? std::count(mask + begin, mask + end, true) : end - begin;
}

// sum [width] += factor times the rows [begin, end) of x where `mask` is true.
void add_rows(ConstMatrix x, const bool* mask, int64_t begin, int64_t end, int64_t width,
              float factor, float* sum) {
  for (int64_t t = begin; t < end; ++t) {
    if (!mask[t]) continue;
    prefetch_rows(x, t + kRowsAhead, 1, width);
    const float* row = x.data + t * x.stride;
    for (int64_t c = 0; c < width; ++c) sum[c] += factor * row[c];
  }
}

// Those rows of x += factor * of.
void add_to_rows(const float* of, const bool* mask, int64_t begin, int64_t end, int64_t width,
                 float factor, Matrix x) {
  for (int64_t t = begin; t < end; ++t) {
    if (!mask[t]) continue;
    prefetch_rows(x, t + kRowsAhead, 1, width);
    float* row = x.data + t * x.stride;
    for (int64_t c = 0; c < width; ++c) row[c] += factor * of[c];
  }
}

}  // namespace

void segment_means(const Segments& segments, SegmentMeanOver over, ConstMatrix x, const bool* mask,
                   int64_t width, Matrix means, float* bias) {
  for (int64_t i = 0; i < segments.count; ++i) {
    const int64_t begin = segments.begin(i), end = segments.begin(i + 1),
                  divisor = divisor_of(over, mask, begin, end);
    std::fill(means[i], means[i] + width, 0.0F);
    bias[i] = divisor > 0 ? 0.0F : -std::numeric_limits<float>::infinity();
    if (divisor > 0)
      add_rows(x, mask, begin, end, width, 1.0F / static_cast<float>(divisor), means[i]);
  }
}

void segment_means_backward(const Segments& segments, SegmentMeanOver over, const bool* mask,
                            int64_t width, ConstMatrix grad_means, Matrix grad_x) {
  for (int64_t i = 0; i < segments.count; ++i) {
    const int64_t begin = segments.begin(i), end = segments.begin(i + 1),
                  divisor = divisor_of(over, mask, begin, end);
    if (divisor > 0)
      add_to_rows(grad_means[i], mask, begin, end, width, 1.0F / static_cast<float>(divisor),
                  grad_x);
  }
}

}  // namespace lra::ops::cpu::LRA_ISA
