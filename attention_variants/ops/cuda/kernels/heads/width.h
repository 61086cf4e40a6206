// Kernels are compiled for some widths of heads and both storage types.
#pragma once

#include <type_traits>

#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

template <class T>
struct StorageType {
  using Type = T;
};

/// Calls body(StorageType<T>, integral_constant<int, width>) of the least width that holds `depth`
/// <= 128.
template <class Body>
void with_storage_and_width(Storage storage, int depth, const Body& body) {
  const auto with_width = [&](auto type) {
    if (depth <= 32) return body(type, std::integral_constant<int, 32>{});
    if (depth <= 64) return body(type, std::integral_constant<int, 64>{});
    return body(type, std::integral_constant<int, 128>{});
  };
  if (storage == Storage::f32) return with_width(StorageType<float>{});
  return with_width(StorageType<bf16>{});
}

inline Dim3 grid_of(int64_t x, int64_t y, int64_t z = 1) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

}  // namespace lra::ops::cuda
