// What transforms of one size share: their factors and constants.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/isa.h"

namespace lra::ops::cpu {

/// Of transforms of `size` complex numbers, which are the real ones of a period of 2 size:
/// radix · 2^a of them, radix 3, 4, 5 or 7 and a at least 1. A stage of radix R, 4 after the first,
/// leaves R transforms of n / R side by side; the last are of 2 or 4.
struct FourierPlan {
  int64_t size = 0, radix = 0;
  const float* roots = nullptr;     // cos and sin of 2π k / radix, [radix,2]
  const float* twiddles = nullptr;  // of each stage but the last: e^{-2πi j r / n}, [n/R,R-1,2]
  const int32_t* place = nullptr;   // where the transform leaves frequency k, [size]
  const float* turns = nullptr;     // e^{-2πi k / size}, [size/2+1,2]

  /// Numbers of a spectrum: at half the frequencies, of which the others are the conjugates, one of
  /// even and one of odd positions.
  LRA_INLINE int64_t spectrum() const { return 2 * (size / 2 + 1); }
};

/// That of the shortest period that there is of at least so many positions; made once, and kept.
const FourierPlan& fourier_plan(int64_t positions);

}  // namespace lra::ops::cpu
