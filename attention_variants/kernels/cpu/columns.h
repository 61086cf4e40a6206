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
};

}  // namespace lra::cpu
