// Some columns of a row at once, in registers.
#pragma once

#include <cstdint>

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
  static constexpr int64_t width = kWidth;

  LRA_INLINE static const Vector& at(const float* x) { return *reinterpret_cast<const Vector*>(x); }
  LRA_INLINE static Vector& at(float* x) { return *reinterpret_cast<Vector*>(x); }

  /// x becomes 2^x for x of at most 126, to 2 units in the last place; 0 below -126. NaN remains.
  /// (By reference, as how vectors are passed depends on the instruction set.)
  LRA_INLINE static void exp2_in_place(Vector& x) {
    using Words [[gnu::vector_size(kWidth * sizeof(float))]] = uint32_t;  // below -126 they wrap
    const Vector low = Vector{} - 126.0F;
    const Vector shifted = x + 12582912.0F;  // 1.5 * 2^23: the last bits are the nearest integer
    const Vector r = x - (shifted - 12582912.0F);
    Vector p = Vector{} + 1.535336188e-4F;
    p = p * r + 1.339887440e-3F;
    p = p * r + 9.618437357e-3F;
    p = p * r + 5.550332471e-2F;
    p = p * r + 2.402264791e-1F;
    p = p * r + 6.931472028e-1F;
    p = p * r + 1.0F;
    // To the exponent. Of std::bit_cast()'s arguments GCC drops what makes them vectors.
    const Vector power = __builtin_bit_cast(
        Vector, __builtin_bit_cast(Words, p) + (__builtin_bit_cast(Words, shifted) << 23));
    x = x >= low ? power : (x < low ? Vector{} : x);
  }
};

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

}  // namespace lra::ops::LRA_KERNELS
