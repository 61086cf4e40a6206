// Some columns of a row at once, in registers.
#pragma once

#include <cstdint>

#include "attention_variants/kernels/cpu/vector_math.h"

namespace lra::cpu {

/// As many columns as the widest registers hold, or fewer; narrower registers take several. A sum
/// of these stays in registers from its first to its last term, which the compiler does not do for
/// an array of floats.
template <int64_t kWidth>
struct Columns {
  using Lanes
      [[gnu::vector_size(kWidth * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
          float;
  static constexpr int64_t width = kWidth;

  LRA_INLINE static const Lanes& at(const float* x) { return *reinterpret_cast<const Lanes*>(x); }
  LRA_INLINE static Lanes& at(float* x) { return *reinterpret_cast<Lanes*>(x); }

  /// x becomes 2^x for x of at most 126, to 2 units in the last place; 0 below -126. NaN remains.
  /// (By reference, as how vectors are passed depends on the instruction set.)
  LRA_INLINE static void raise_two_to(Lanes& x) {
    using Words [[gnu::vector_size(kWidth * sizeof(float))]] = uint32_t;  // below -126 they wrap
    const Lanes low = Lanes{} - 126.0F;
    const Lanes shifted = x + 12582912.0F;  // 1.5 * 2^23: the last bits are the nearest integer
    const Lanes r = x - (shifted - 12582912.0F);
    Lanes p = Lanes{} + 1.535336188e-4F;
    p = p * r + 1.339887440e-3F;
    p = p * r + 9.618437357e-3F;
    p = p * r + 5.550332471e-2F;
    p = p * r + 2.402264791e-1F;
    p = p * r + 6.931472028e-1F;
    p = p * r + 1.0F;
    // To the exponent. Of std::bit_cast()'s arguments GCC drops what makes them vectors.
    const Lanes power = __builtin_bit_cast(
        Lanes, __builtin_bit_cast(Words, p) + (__builtin_bit_cast(Words, shifted) << 23));
    x = x >= low ? power : (x < low ? Lanes{} : x);
  }
};

}  // namespace lra::cpu
