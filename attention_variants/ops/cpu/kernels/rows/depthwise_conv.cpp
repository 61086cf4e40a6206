#include "attention_variants/ops/cpu/kernels/rows/depthwise_conv.h"

#include <algorithm>
#include <numeric>

#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr int64_t kMostColumns = ConvWeightSums::kParts;

// to [count,width]: rows of x [length,width] from `first` on, and zeros where it has none.
LRA_INLINE void lay_out_from(int64_t first, ConstMatrix x, int64_t length, int64_t count,
                             int64_t width, Matrix to) {
  for (int64_t t = 0; t < count; ++t) {
    const int64_t from = first + t;
    float* const row = to[t];
    if (from < 0 || from >= length) {
      std::fill(row, row + width, 0.0F);
      continue;
    }
    prefetch_rows(x, from + kRowsAhead, 1, width);
    for_columns(
        width, [&](auto columns, int64_t c) __attribute__((always_inline)) {
          columns.at(row + c) = columns.at(x[from] + c);
        });
  }
}

constexpr int64_t kTogether = 8;  // sums at a time: enough to wait for none

// A kernel's first tap, and how far the next one is.
struct Taps {
  const float* first;
  int64_t step;
};

// kCount rows of the result at `out`, of the rows from `x` on.
template <class C, int64_t kCount>
LRA_INLINE void convolve(Taps conv_weight, int64_t kernel, ConstMatrix x, Matrix out) {
  typename C::Vector sum[kCount];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kCount; ++r) sum[r] = C::at(out.data + r * out.stride);
  for (int64_t j = 0; j < kernel; ++j) {
    const float tap = conv_weight.first[j * conv_weight.step];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kCount; ++r) sum[r] += tap * C::at(x.data + (j + r) * x.stride);
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kCount; ++r) C::at(out.data + r * out.stride) = sum[r];
}

template <class C>
LRA_INLINE void convolve_columns(Taps conv_weight, int64_t kernel, ConstMatrix x, int64_t rows,
                                 Matrix out) {
  int64_t t = 0;
  for (; t + kTogether <= rows; t += kTogether) {
    convolve<C, kTogether>(conv_weight, kernel, {x.data + t * x.stride, x.stride},
                           {out.data + t * out.stride, out.stride});
  }
  for (; t < rows; ++t) {
    convolve<C, 1>(conv_weight, kernel, {x.data + t * x.stride, x.stride},
                   {out.data + t * out.stride, out.stride});
  }
}

LRA_INLINE void convolve_all(Taps conv_weight, int64_t kernel, ConstMatrix x, int64_t rows,
                             int64_t width, Matrix out) {
  for_columns(
      width, [&](auto columns, int64_t c) __attribute__((always_inline)) {
        convolve_columns<decltype(columns)>(conv_weight, kernel, {x.data + c, x.stride}, rows,
                                            {out.data + c, out.stride});
      });
}

// Adds Σ_t gradient[t] x[t + j] to the sums of the first kCount taps j.
template <class C, int64_t kCount>
LRA_INLINE void correlate(ConstMatrix gradient, ConstMatrix x, int64_t rows, float* sums) {
  static_assert(C::width <= kMostColumns);
  typename C::Vector sum[kCount];
#pragma GCC unroll 8
  for (int64_t j = 0; j < kCount; ++j) sum[j] = C::at(sums + j * kMostColumns);
  for (int64_t t = 0; t < rows; ++t) {
    const typename C::Vector g = C::at(gradient.data + t * gradient.stride);
#pragma GCC unroll 8
    for (int64_t j = 0; j < kCount; ++j) sum[j] += g * C::at(x.data + (t + j) * x.stride);
  }
#pragma GCC unroll 8
  for (int64_t j = 0; j < kCount; ++j) C::at(sums + j * kMostColumns) = sum[j];
}

// The same for a number of taps known when it runs, at most kCount.
template <class C, int64_t kCount>
LRA_INLINE void correlate_rest(int64_t taps, ConstMatrix gradient, ConstMatrix x, int64_t rows,
                               float* sums) {
  if constexpr (kCount > 0) {
    if (taps == kCount) return correlate<C, kCount>(gradient, x, rows, sums);
    correlate_rest<C, kCount - 1>(taps, gradient, x, rows, sums);
  }
}

template <class C>
LRA_INLINE void correlate_columns(ConstMatrix gradient, ConstMatrix x, int64_t kernel, int64_t rows,
                                  float* sums) {
  for (int64_t j = 0; j < kernel; j += kTogether) {
    correlate_rest<C, kTogether>(std::min(kTogether, kernel - j), gradient,
                                 {x.data + j * x.stride, x.stride}, rows, sums + j * kMostColumns);
  }
}

LRA_INLINE void correlate_all(ConstMatrix gradient, ConstMatrix x, int64_t kernel, int64_t rows,
                              int64_t width, float* sums) {
  for_columns(
      width, [&](auto columns, int64_t c) __attribute__((always_inline)) {
        correlate_columns<decltype(columns)>({gradient.data + c, gradient.stride},
                                             {x.data + c, x.stride}, kernel, rows, sums);
      });
}

}  // namespace

int64_t pad_before(int64_t kernel) { return kernel > 0 ? (kernel - 1) / 2 : 0; }
int64_t pad_after(int64_t kernel) { return kernel / 2; }

ConstMatrix pad_tile(ConstMatrix x, int64_t length, int64_t begin, int64_t rows, int64_t width,
                     int64_t kernel, KernelOrder order, Matrix copy) {
  const int64_t before = order == KernelOrder::reversed ? pad_after(kernel) : pad_before(kernel),
                first = begin - before, count = rows + pad_before(kernel) + pad_after(kernel);
  if (first >= 0 && first + count <= length) return x.from(first);
  lay_out_from(first, x, length, count, width, copy);
  return copy;
}

void add_convolution(const float* conv_weight, int64_t kernel, KernelOrder order,
                     ConstMatrix laid_out, int64_t rows, int64_t width, Matrix out) {
  if (kernel == 0) return;
  const Taps in_order =
      order == KernelOrder::reversed ? Taps{conv_weight + kernel - 1, -1} : Taps{conv_weight, 1};
  convolve_all(in_order, kernel, laid_out, rows, width, out);
}

void add_conv_weight_grad(ConstMatrix gradient, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                          int64_t width, float* sums) {
  correlate_all(gradient, laid_out, kernel, rows, width, sums);
}

void tap_gradients(const float* sums, int64_t kernel, float* grad_taps) {
  for (int64_t j = 0; j < kernel; ++j)
    grad_taps[j] = std::accumulate(sums + j * kMostColumns, sums + (j + 1) * kMostColumns, 0.0F);
}

}  // namespace lra::ops::cpu::LRA_ISA
