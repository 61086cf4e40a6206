// Some columns of a row at once, in registers.
#pragma once

#include <cstdint>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu {

/// As many columns as a register holds, or fewer. A sum of these stays in registers from its first
/// to its last term, which the compiler does not do for an array of floats. Columns wider than the
/// processor's registers work, slowly.
template <int64_t kWidth>
struct Simd {
  using Vector
      [[gnu::vector_size(kWidth * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
          float;
  using Words [[gnu::vector_size(kWidth * sizeof(float))]] = uint32_t;  // of the same bits
  static constexpr int64_t width = kWidth;

  LRA_INLINE static const Vector& at(const float* x) { return *reinterpret_cast<const Vector*>(x); }
  LRA_INLINE static Vector& at(float* x) { return *reinterpret_cast<Vector*>(x); }

  LRA_INLINE static void exp2_in_place(Vector& x) {
#if defined(__AVX512F__)
    if constexpr (kWidth == 16) return exp2_scaled(x);
#endif
    ops::cpu::exp2_in_place<Simd>(x);
  }

 private:
#if defined(__AVX512F__)
  // The same numbers in fewer instructions: one that scales by powers of two, and leaves NaN.
  LRA_INLINE static void exp2_scaled(Vector& x) {
    const __m512 whole = (__m512)(x + 12582912.0F - 12582912.0F);  // the nearest integers
    Vector p;
    exp2_of_fraction<Simd>(x - (Vector)whole, p);
    const __mmask16 some = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-126.0F), _CMP_NLT_UQ);
    x = (Vector)_mm512_maskz_scalef_ps(some, (__m512)p, whole);
  }
#endif
};

/// Lane i of x[0] becomes the sum of the lanes of x[i], in pairs of pairs; the rest is used up.
/// Before it, each number has kEach lanes side by side in its vector, kWidth at the call.
template <int64_t kWidth, int64_t kEach = kWidth>
LRA_INLINE void sum_lanes(typename Simd<kWidth>::Vector* x) {
#if defined(__clang__)
  typename Simd<kWidth>::Vector sums{};
  for (int64_t i = 0; i < kWidth; ++i) {
    for (int64_t l = 0; l < kWidth; ++l) sums[i] += x[i][l];
  }
  x[0] = sums;
#else
  if constexpr (kEach > 1) {
    typename Simd<kWidth>::Words first;  // half of each number's, of two vectors
#pragma GCC unroll 16
    for (int64_t l = 0; l < kWidth; ++l) {
      const int64_t number = l / (kEach / 2), lane = l % (kEach / 2);
      first[l] = static_cast<uint32_t>(number * kEach + lane);
    }
    const auto second = first + static_cast<uint32_t>(kEach / 2);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kEach / 2; ++i) {
      x[i] = __builtin_shuffle(x[2 * i], x[2 * i + 1], first) +
             __builtin_shuffle(x[2 * i], x[2 * i + 1], second);
    }
    sum_lanes<kWidth, kEach / 2>(x);
  }
#endif
}

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Floats that a register of this instruction set holds.
#if defined(__AVX512F__)
constexpr int64_t kSimdWidth = 16;
#elif defined(__AVX2__)
constexpr int64_t kSimdWidth = 8;
#else
constexpr int64_t kSimdWidth = 4;
#endif

/// Calls body(Simd, first column) for all columns of a row.
template <class Body>
LRA_INLINE void for_columns(int64_t width, const Body& body) {
  int64_t c = 0;
  for (; c + kSimdWidth <= width; c += kSimdWidth) body(Simd<kSimdWidth>(), c);
  for (; c + 4 <= width; c += 4) body(Simd<4>(), c);
  for (; c < width; ++c) body(Simd<1>(), c);
}

}  // namespace lra::ops::LRA_KERNELS
