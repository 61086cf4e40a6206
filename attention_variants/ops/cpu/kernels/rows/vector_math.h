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

/// The error function, to 2 units in the last place (after N. Juffa's erff).
LRA_INLINE float erf(float x) {
  const float t = std::abs(x), s = x * x;
  float far = -1.72853470e-5F * t + 3.83197126e-4F;
  const float u = -3.88396438e-3F * t + 2.42546219e-2F;
  far = far * s + u;
  far = far * t - 1.06777877e-1F;
  far = far * t - 6.34846687e-1F;
  far = far * t - 1.28717512e-1F;
  far = far * t - t;
  far = std::copysign(1.0F - exp(std::max(far, -80.0F)), x);
  float near = -5.96761703e-4F;
  near = near * s + 4.99119423e-3F;
  near = near * s - 2.67681349e-2F;
  near = near * s + 1.12819925e-1F;
  near = near * s - 3.76125336e-1F;
  near = near * s + 1.28379166e-1F;
  near = near * x + x;
  return t > 0.927734375F ? far : near;
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
