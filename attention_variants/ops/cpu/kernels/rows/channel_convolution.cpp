#include "attention_variants/ops/cpu/kernels/rows/channel_convolution.h"

#include <algorithm>

#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr int64_t kTogether = 8;  // sums at a time: enough to wait for none

// kCount rows at `out`: Σ_j taps[j] x[first + r - j] over taps [0, count) that all stay inside.
template <class C, int64_t kCount>
LRA_INLINE void convolve(ConstMatrix taps, int64_t begin, int64_t end, const float* x,
                         int64_t stride, Matrix out) {
  typename C::Vector sum[kCount] = {};
  for (int64_t j = begin; j < end; ++j) {
    const typename C::Vector tap = C::at(taps[j]);
    const float* const from = x - j * stride;
#pragma GCC unroll 8
    for (int64_t r = 0; r < kCount; ++r) sum[r] += tap * C::at(from + r * stride);
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kCount; ++r) C::at(out[r]) = sum[r];
}

// Adds Σ_t gradient[t] x[t + ahead - j] over t in [begin, end) to the sums of taps [j, j + kCount).
template <class C, int64_t kCount>
LRA_INLINE void correlate(ConstMatrix gradient, ConstMatrix x, int64_t begin, int64_t end,
                          int64_t lead, Matrix sums) {
  typename C::Vector sum[kCount];
#pragma GCC unroll 8
  for (int64_t j = 0; j < kCount; ++j) sum[j] = C::at(sums[j]);
  for (int64_t t = begin; t < end; ++t) {
    const typename C::Vector g = C::at(gradient[t]);
#pragma GCC unroll 8
    for (int64_t j = 0; j < kCount; ++j) sum[j] += g * C::at(x[t + lead - j]);
  }
#pragma GCC unroll 8
  for (int64_t j = 0; j < kCount; ++j) C::at(sums[j]) = sum[j];
}

}  // namespace

void channel_convolution(ConstMatrix taps, int64_t count, int64_t ahead, ConstMatrix x,
                         int64_t length, int64_t width, int64_t begin, int64_t rows, Matrix out) {
  const auto at = [](auto matrix, int64_t c) {
    return decltype(matrix){matrix.data + c, matrix.stride};
  };
  for_columns(
      width, [&](auto columns, int64_t c) __attribute__((always_inline)) {
        using C = decltype(columns);
        const ConstMatrix of_channels = at(taps, c);
        for (int64_t r = 0; r < rows;) {
          const int64_t first = begin + r + ahead;  // what tap 0 of the row reads
          const bool inside = first - (count - 1) >= 0 && first + kTogether <= length;
          const float* const from = x.data + first * x.stride + c;
          const Matrix to = at(out.from(r), c);
          if (inside && r + kTogether <= rows) {
            convolve<C, kTogether>(of_channels, 0, count, from, x.stride, to);
            r += kTogether;
          } else {
            convolve<C, 1>(of_channels, std::max<int64_t>(first - (length - 1), 0),
                           std::min(count, first + 1), from, x.stride, to);
            ++r;
          }
        }
      });
}

void add_tap_gradients(ConstMatrix gradient, ConstMatrix x, int64_t length, int64_t width,
                       int64_t count, int64_t ahead, Matrix sums) {
  const auto at = [](auto matrix, int64_t c) {
    return decltype(matrix){matrix.data + c, matrix.stride};
  };
  // Rows whose x[t + lead] is inside, for the tap of that lead.
  const auto first_row = [](int64_t lead) { return std::max<int64_t>(-lead, 0); };
  const auto last_row = [&](int64_t lead) { return length - std::max<int64_t>(lead, 0); };
  for_columns(
      width, [&](auto columns, int64_t c) __attribute__((always_inline)) {
        using C = decltype(columns);
        const ConstMatrix g = at(gradient, c), from = at(x, c);
        const auto one = [&](int64_t j, int64_t begin, int64_t end) __attribute__((always_inline)) {
          if (begin < end) correlate<C, 1>(g, from, begin, end, ahead - j, at(sums.from(j), c));
        };
        int64_t j = 0;
        for (; j + kTogether <= count; j += kTogether) {
          const int64_t most = ahead - j, least = most - (kTogether - 1);
          const int64_t begin = first_row(least), end = std::max(last_row(most), begin);
          for (int64_t i = j; i < j + kTogether; ++i) {
            one(i, first_row(ahead - i), std::min(begin, last_row(ahead - i)));
            one(i, std::max(end, first_row(ahead - i)), last_row(ahead - i));
          }
          correlate<C, kTogether>(g, from, begin, end, most, at(sums.from(j), c));
        }
        for (; j < count; ++j) one(j, first_row(ahead - j), last_row(ahead - j));
      });
}

}  // namespace lra::ops::cpu::LRA_ISA
