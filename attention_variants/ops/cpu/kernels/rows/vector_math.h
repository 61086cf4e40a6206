// Functions of one float, of plain arithmetic alone, so that the compiler turns loops over them
// into vector instructions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attention_variants/ops/cpu/kernels/rows/isa.h"

namespace lra::ops::cpu {

/// exp(x), to 2 units in the last place; 0 below -87.3 and about 2e38 above 88.
LRA_INLINE float exp(float x) {
  const float low = -87.33654F, high = 88.02F;
  const float inside = std::min(std::max(x, low), high);
  const float shift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float n = (inside * 1.44269504F + shift) - shift;
  float r = inside - n * 0.693359375F;  // ln 2 in two parts
  r = r + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const float power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < low ? 0.0F : p * power;
}

/// Numbers one at a time, for the compiler's vectorizer; several: Simd (simd.h).
struct Scalar {
  using Vector = float;
  using Words = uint32_t;  // of the same bits
};

/// 2^r for r between -1/2 and 1/2. (By reference, as how vectors are passed depends on the
/// instruction set.)
template <class Numbers>
LRA_INLINE void exp2_of_fraction(const typename Numbers::Vector& r, typename Numbers::Vector& p) {
  p = typename Numbers::Vector{} + 1.535336188e-4F;
  p = p * r + 1.339887440e-3F;
  p = p * r + 9.618437357e-3F;
  p = p * r + 5.550332471e-2F;
  p = p * r + 2.402264791e-1F;
  p = p * r + 6.931472028e-1F;
  p = p * r + 1.0F;
}

/// x becomes 2^x for x of at most 126, to 2 units in the last place; 0 below -126. NaN remains.
template <class Numbers>
LRA_INLINE void exp2_in_place(typename Numbers::Vector& x) {
  using T = typename Numbers::Vector;
  using Words = typename Numbers::Words;  // below -126 they wrap
  const T low = T{} - 126.0F;
  const T shifted = x + 12582912.0F;  // 1.5 * 2^23: the last bits are the nearest integer
  T p;
  exp2_of_fraction<Numbers>(x - (shifted - 12582912.0F), p);
  // To the exponent. Of std::bit_cast()'s arguments GCC drops what makes them vectors.
  const T power = __builtin_bit_cast(
      T, __builtin_bit_cast(Words, p) + (__builtin_bit_cast(Words, shifted) << 23));
  x = x >= low ? power : (x < low ? T{} : x);
}

/// The standard normal distribution at a number.
struct Normal {
  float below;  // Φ(x), to 1.6e-7
  float bell;   // exp(-x²/2), √(2π) times the density
};

/// Φ(-x) = bell g(x) for x >= 0, by a polynomial for g that makes the largest error of max(x, 1/4)
/// Φ(x) least on [0, 6] (by least squares on Chebyshev's points, weighted anew until errors are
/// even); beyond, bell is below 2e-8.
LRA_INLINE Normal normal_at(float x) {
  const float a = std::min(std::abs(x), 6.0F);
  float bell = -0.72134752F * x * x;
  exp2_in_place<Scalar>(bell);
  float g = -2.0611471e-7F;
  g = g * a + 5.4514430e-6F;
  g = g * a - 6.4922875e-5F;
  g = g * a + 4.6623797e-4F;
  g = g * a - 2.2965467e-3F;
  g = g * a + 8.4411716e-3F;
  g = g * a - 2.4784464e-2F;
  g = g * a + 6.1402965e-2F;
  g = g * a - 1.3257571e-1F;
  g = g * a + 2.4992035e-1F;
  g = g * a - 3.9893600e-1F;
  g = g * a + 4.9999991e-1F;
  const float tail = g * bell;
  return {.below = x < 0 ? tail : 1.0F - tail, .bell = bell};
}

/// The largest of x [count], -inf where there is none. NaN is passed over. With a maximum for each
/// lane: compilers do not turn the maximum of one float after the other into vector instructions.
LRA_INLINE float largest(const float* x, int64_t count) {
  constexpr int64_t kLanes = 16;
  float top[kLanes];
  for (float& lane : top) lane = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) top[l] = x[i + l] > top[l] ? x[i + l] : top[l];
  }
  for (int64_t l = 0; i + l < count; ++l) top[l] = x[i + l] > top[l] ? x[i + l] : top[l];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) top[l] = std::max(top[l], top[l + half]);
  }
  return top[0];
}

/// x [count] = exp(scale x - shift); their sum.
LRA_INLINE float exponentials(float* x, int64_t count, float scale, float shift) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    x[i] = exp(scale * x[i] - shift);
    sum += x[i];
  }
  return sum;
}

/// The bits of the nearest bfloat16, ties to even; of any NaN those of one.
LRA_INLINE uint32_t bfloat16_bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return x == x ? (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 : 0x7FC0;
}

}  // namespace lra::ops::cpu
