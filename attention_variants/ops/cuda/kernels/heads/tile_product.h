// Products of matrices in shared memory by tensor cores: a warp has 16 rows of the left one.
//
// float32 is split into two numbers of tf32, of whose four products the smallest is left out
// (Ootomo & Yokota, IJHPCA 2022): as exact as float32. A bfloat16 is a tf32 already, so that its
// products are exact in one; scaled queries, and weights between two products, are rounded to the
// 11 bits of tf32.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/mma.h"

namespace lra::ops::cuda {

inline constexpr int kWarpRows = 16;

template <class T>
inline constexpr bool kSplit = sizeof(T) == sizeof(float);

/// Element (r, c) is data[r * row + c * column].
struct TileView {
  const float* data;
  int row, column;

  __device__ __forceinline__ float operator()(int r, int c) const {
    return data[r * row + c * column];
  }
};

/// Rows of a tile lie so many floats apart that the lanes of a fragment meet no bank twice.
__device__ __host__ constexpr int tile_stride(int width) { return width + 4; }

/// Row and column of number `e` of a lane's four in a 16 x 8 product.
__device__ __forceinline__ int fragment_row(int e) {
  return static_cast<int>(threadIdx.x) % 32 / 4 + e / 2 * 8;
}
__device__ __forceinline__ int fragment_column(int e) {
  return static_cast<int>(threadIdx.x) % 4 * 2 + e % 2;
}

/// Sum over the lanes that share a row of a product.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

/// x = high + low, nearly.
struct SplitFloat {
  uint32_t high, low;
};

template <bool split>
__device__ __forceinline__ SplitFloat split_tf32(float x) {
  if (!split) return {tf32(x), 0U};
  // To the nearest like tf32(), without its checks: what becomes of a NaN here is one in `low`,
  // whose last bits the product leaves out.
  const uint32_t high = (__float_as_uint(x) + 0x1000U) & 0xFFFFE000U;
  return {high, __float_as_uint(x - __uint_as_float(high))};
}

/// Whether the factors of a product stand in the other order than in the product that it is to
/// equal to the last bit.
enum class Factors { in_order, swapped };

/// Steps of a product that are under way together, in kernels that have registers for it.
template <int width>
inline constexpr int kStepsAhead = width > 64 ? 1 : 2;

/// sum [16,8 tiles], as fragments, += a [16,depth] b [depth,8 tiles]; depth a multiple of 8.
template <bool split, int ahead, Factors factors = Factors::in_order, int tiles>
__device__ __forceinline__ void multiply_add(TileView a, TileView b, int depth,
                                             float (&sum)[tiles][4]) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4,
            inner = static_cast<int>(threadIdx.x) % 4;
#pragma unroll ahead
  for (int k = inner; k < depth; k += 8) {
    uint32_t a_high[4], a_low[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const SplitFloat x = split_tf32<split>(a(group + e % 2 * 8, k + e / 2 * 4));
      a_high[e] = x.high;
      a_low[e] = x.low;
    }
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      const SplitFloat first = split_tf32<split>(b(k, 8 * n + group)),
                       second = split_tf32<split>(b(k + 4, 8 * n + group));
      const uint32_t b_high[2] = {first.high, second.high}, b_low[2] = {first.low, second.low};
      if (split && factors == Factors::in_order) mma_m16n8k8_tf32(sum[n], a_low, b_high);
      if (split) mma_m16n8k8_tf32(sum[n], a_high, b_low);
      if (split && factors == Factors::swapped) mma_m16n8k8_tf32(sum[n], a_low, b_high);
      mma_m16n8k8_tf32(sum[n], a_high, b_high);
    }
  }
}

/// Writes a product's fragments to rows of shared memory.
template <int tiles>
__device__ __forceinline__ void write_fragments(const float (&from)[tiles][4], float* rows,
                                                int stride) {
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      rows[fragment_row(e) * stride + 8 * n + fragment_column(e)] = from[n][e];
  }
}

/// All of a fragment times the factor of its row, of which a lane has two.
template <int tiles>
__device__ __forceinline__ void scale_fragments(float (&x)[tiles][4], const float (&factor)[2]) {
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) x[n][e] *= factor[e / 2];
  }
}

}  // namespace lra::ops::cuda
