// A small matrix transposed, so that products read it along its rows.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra::ops::cpu {

/// The stride of a transposed matrix's rows: with one that is a power of two, what is written one
/// below the other falls into the same few sets of the cache. An odd number of cache lines.
LRA_INLINE int64_t transposed_stride(int64_t columns) { return ((columns + 15) / 16 | 1) * 16; }

/// to = xᵀ of x [rows,columns], four by four.
LRA_INLINE void transpose(ConstMatrix x, int64_t rows, int64_t columns, Matrix to) {
  using Four = Simd<4>;
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    prefetch_rows(x, i + 48, 4, columns);
    int64_t j = 0;
#if !defined(__clang__)
    for (; j + 4 <= columns; j += 4) {
      const Four::Vector a = Four::at(x[i] + j), b = Four::at(x[i + 1] + j),
                         c = Four::at(x[i + 2] + j), d = Four::at(x[i + 3] + j);
      using Which [[gnu::vector_size(16)]] = int32_t;
      const Which low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5},
                  second = {2, 3, 6, 7};
      const Four::Vector ab = __builtin_shuffle(a, b, low), cd = __builtin_shuffle(c, d, low),
                         ab_high = __builtin_shuffle(a, b, high),
                         cd_high = __builtin_shuffle(c, d, high);
      Four::at(to[j] + i) = __builtin_shuffle(ab, cd, first);
      Four::at(to[j + 1] + i) = __builtin_shuffle(ab, cd, second);
      Four::at(to[j + 2] + i) = __builtin_shuffle(ab_high, cd_high, first);
      Four::at(to[j + 3] + i) = __builtin_shuffle(ab_high, cd_high, second);
    }
#endif
    for (; j < columns; ++j) {
      for (int64_t r = 0; r < 4; ++r) to[j][i + r] = x[i + r][j];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j][i] = x[i][j];
  }
}

}  // namespace lra::ops::cpu
