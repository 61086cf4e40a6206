// Products of small square matrices by one block: a warp has 16 rows and some columns of the
// result. A matrix is [size,size], in shared or in global memory, and zero beyond the m x m that
// are meant.
#pragma once

#include <type_traits>

#include "attention_variants/ops/cuda/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cuda/kernels/heads/tile_product.h"

namespace lra::ops::cuda {

template <int size>
struct SquareTiles {
  // Of 8 columns, that a warp computes at once: few where that makes more warps of a block.
  static constexpr int kTiles = size > 64 ? 4 : 2;
  static constexpr int kGroups = size > 64 ? 4 : 1;  // of these, that it has
  static constexpr int kColumns = 8 * kTiles * kGroups, kAcross = size / kColumns;
  static constexpr int kThreads = 32 * (size / kWarpRows) * kAcross;
  /// Of a matrix in shared memory: floats from row to row, and all.
  static constexpr int kStride = tile_stride(size), kFloats = size * kStride;
};

struct Square {
  float* data;
  int stride;

  __device__ __forceinline__ float& operator()(int r, int c) const { return data[r * stride + c]; }
  __device__ __forceinline__ TileView view() const { return {data, stride, 1}; }
  __device__ __forceinline__ TileView transposed() const { return {data, 1, stride}; }
};

/// Number i of a block's matrices in shared memory.
template <int size>
__device__ __forceinline__ Square shared_square(float* first, int i) {
  return {first + i * SquareTiles<size>::kFloats, SquareTiles<size>::kStride};
}

/// Number i of matrices [..,size,size] in global memory.
template <int size>
__device__ __forceinline__ Square global_square(float* first, int64_t i) {
  return {first + i * size * size, size};
}

/// A warp's part of a product, in registers.
template <int size>
struct SquarePart {
  using Tiles = SquareTiles<size>;
  float value[Tiles::kGroups][Tiles::kTiles][4] = {};

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int first_row() { return warp() / Tiles::kAcross * kWarpRows; }
  static __device__ __forceinline__ int first_column() {
    return warp() % Tiles::kAcross * Tiles::kColumns;
  }

  /// Adds a b, where a has so many columns, a multiple of 8.
  __device__ __forceinline__ void add_product(const TileView& a, const TileView& b,
                                              int depth = size) {
    const TileView rows = {a.data + first_row() * a.row, a.row, a.column};
#pragma unroll
    for (int g = 0; g < Tiles::kGroups; ++g) {
      const int column = first_column() + 8 * Tiles::kTiles * g;
      multiply_add<true, kStepsAhead<size>>(rows, {b.data + column * b.column, b.row, b.column},
                                            depth, value[g]);
    }
  }

  /// Calls body(row, column, value&) of each element.
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) {
#pragma unroll
    for (int n = 0; n < Tiles::kTiles * Tiles::kGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        body(first_row() + fragment_row(e), first_column() + 8 * n + fragment_column(e),
             value[n / Tiles::kTiles][n % Tiles::kTiles][e]);
      }
    }
  }
  /// Writes diagonal I + factor times this, for all threads to read.
  __device__ __forceinline__ void write(const Square& to, float factor, float diagonal = 0) {
    __syncthreads();  // what stands there is read until here
    each([&](int r, int c, float x) { to(r, c) = factor * x + (r == c ? diagonal : 0.0F); });
    __syncthreads();
  }
};

/// Calls body(row, column) of each element, each on one thread.
template <int size, class Body>
__device__ __forceinline__ void each_element(const Body& body) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < size * size; i += SquareTiles<size>::kThreads)
    body(i / size, i % size);
}

/// Calls body with the size that m takes, as a constant.
template <class Body>
void with_square_size(int m, const Body& body) {
  switch (square_size(m)) {
    case 32:
      return body(std::integral_constant<int, 32>());
    case 64:
      return body(std::integral_constant<int, 64>());
    default:
      return body(std::integral_constant<int, kMostSquare>());
  }
}

}  // namespace lra::ops::cuda
