// Views of matrices by pointer and row stride.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/isa.h"

namespace lra::ops::cpu {

/// A row-major matrix somewhere: element (i, j) is data[i * stride + j].
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  LRA_INLINE T* operator[](int64_t row) const { return data + row * stride; }
  /// The same from a later row on.
  LRA_INLINE Rows from(int64_t row) const { return {data + row * stride, stride}; }
  LRA_INLINE operator Rows<const T>() const {
    return {data, stride};
  }  // NOLINT: as a pointer converts
};
using Matrix = Rows<float>;
using ConstMatrix = Rows<const float>;

LRA_INLINE void copy_rows(ConstMatrix x, int64_t rows, int64_t columns, Matrix to) {
  for (int64_t r = 0; r < rows; ++r) std::copy(x[r], x[r] + columns, to[r]);
}

/// Prefetches elements that are to be read soon, or rows of them; contiguous rows are left to the
/// hardware prefetcher. They may lie past the last one.
template <class T>
LRA_INLINE void prefetch_elements(const T* x, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(x + i);
}
template <class T>
LRA_INLINE void prefetch_rows(Rows<T> x, int64_t row, int64_t count, int64_t columns) {
  if (x.stride == columns) return;
  for (int64_t r = 0; r < count; ++r) prefetch_elements(x[row + r], columns);
}

/// So many rows of a head ahead of one that takes some nanoseconds: memory takes a hundred.
inline constexpr int64_t kRowsAhead = 48;

}  // namespace lra::ops::cpu
