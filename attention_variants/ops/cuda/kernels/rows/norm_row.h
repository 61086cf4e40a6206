// A row that a warp normalises, and the number types and widths that such kernels are compiled for.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {

inline constexpr int kNormWarps = 8;

/// The elements of a row in the lanes of a warp, 32 apart in a lane: 0 beyond the width.
template <int items>
struct RowOfWarp {
  float of[items];
  int lane, width;

  template <class T>
  __device__ __forceinline__ RowOfWarp(const T* x, int row_width, bool real)
      : lane(static_cast<int>(threadIdx.x)), width(row_width) {
#pragma unroll
    for (int i = 0; i < items; ++i)
      of[i] = real && column(i) < width ? to_float(x[column(i)]) : 0.0F;
  }

  __device__ __forceinline__ int column(int item) const { return item * kWarp + lane; }

  /// Leaves of[] less the mean.
  __device__ __forceinline__ void take_moments(float eps, float& mean, float& inverse_sd) {
    float total = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < items; ++i) total += of[i];
    mean = warp_sum(total) / width;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      of[i] -= mean;
      if (column(i) < width) squares += of[i] * of[i];
    }
    inverse_sd = rsqrtf(warp_sum(squares) / width + eps);
  }
};

/// Types of the input and of the result.
template <class X, class N>
struct NormTypes {
  using Input = X;
  using Result = N;
};

/// Calls body(NormTypes) for what params say.
template <class Params, class Body>
void with_norm_types(const Params& p, const Body& body) {
  if (p.input != Storage::f32) return body(NormTypes<bf16, bf16>());
  if (p.result == Storage::f32) return body(NormTypes<float, float>());
  return body(NormTypes<float, bf16>());
}

template <int n>
struct Items {
  static constexpr int value = n;
};

/// Calls body(Items<n>) with elements that a lane has of a row: width <= 32 n.
template <class Body>
void with_norm_items(int width, const Body& body) {
  if (width <= 64) return body(Items<2>());
  if (width <= 128) return body(Items<4>());
  if (width <= 256) return body(Items<8>());
  if (width <= 512) return body(Items<16>());
  return body(Items<32>());
}

}  // namespace lra::ops::cuda
