// Rows of a head in global memory, and tiles of them in shared memory.
#pragma once

#include "attention_variants/ops/cuda/kernels/heads/tile_product.h"
#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"

namespace lra::ops::cuda {

inline constexpr int kTileThreads = 128;

/// A result, read.
__device__ __forceinline__ Heads as_const(const MutableHeads& heads) {
  return {heads.data, heads.batch, heads.head, heads.row};
}

/// Rows of a head of a sample.
template <class T>
__device__ __forceinline__ T* head_of(const MutableHeads& heads, int64_t b, int64_t h) {
  return static_cast<T*>(heads.data) + b * heads.batch + h * heads.head;
}

/// Rows [N,d] of one head, multiplied by the position's factor where there are factors [N], and by
/// `factor`.
template <class T>
struct HeadRows {
  const T* data;
  int row;  // a head of a sample has fewer than 2^31 elements between its first and its last
  float factor;
  const float* factors;

  HeadRows() = default;
  __device__ HeadRows(const Heads& heads, int b, int h, float by = 1.0F,
                      const float* by_position = nullptr)
      : data(static_cast<const T*>(heads.data) + b * heads.batch + h * heads.head),
        row(static_cast<int>(heads.row)),
        factor(by),
        factors(by_position) {}

  __device__ __forceinline__ float scale(int at) const {
    return factors == nullptr ? factor : factor * factors[at];
  }
  /// Whatever stands at c >= depth is not read.
  __device__ __forceinline__ float operator()(int at, int c) const {
    return to_float(data[at * row + c]) * scale(at);
  }
  /// Whether four columns from a multiple of 4 on can be read at once.
  __device__ __forceinline__ bool in_fours(int depth) const {
    return depth % 4 == 0 && row % 4 == 0 &&
           reinterpret_cast<uintptr_t>(data) % (4 * sizeof(T)) == 0;
  }
  __device__ __forceinline__ float4 four(int at, int c) const {
    const float4 x = load4(data + at * row + c);
    const float by = scale(at);
    return make_float4(x.x * by, x.y * by, x.z * by, x.w * by);
  }
};

/// Reads of global memory that a thread has under way before it writes the first to shared memory.
inline constexpr int kReadsAhead = 4;

/// write(i, read(i)) of this thread's share of `count` numbers i, a multiple of kTileThreads.
template <int count, class Read, class Write>
__device__ __forceinline__ void move_ahead(const Read& read, const Write& write) {
  constexpr int kShare = count / kTileThreads, kAhead = kShare < kReadsAhead ? kShare : kReadsAhead;
  static_assert(count % kTileThreads == 0 && kShare % kAhead == 0);
#pragma unroll 1
  for (int first = 0; first < kShare; first += kAhead) {
    decltype(read(0)) ahead[kAhead];
    const int i = first * kTileThreads + static_cast<int>(threadIdx.x);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) ahead[n] = read(i + n * kTileThreads);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) write(i + n * kTileThreads, ahead[n]);
  }
}

/// tile [rows,tile_stride(width)] = the rows at these positions, zero for none and beyond `depth`.
template <int width, int rows, class T>
__device__ __forceinline__ void load_rows(const HeadRows<T>& from, int depth, const int* at,
                                          float* tile) {
  if (from.in_fours(depth)) {
    constexpr int kFours = width / 4;
    move_ahead<rows * kFours>(
        [&](int i) {
          const int c = i % kFours * 4, position = at[i / kFours];
          return position >= 0 && c < depth ? from.four(position, c) : make_float4(0, 0, 0, 0);
        },
        [&](int i, const float4& x) {
          store4(tile + i / kFours * tile_stride(width) + i % kFours * 4, x);
        });
    return;
  }
  move_ahead<rows * width>(
      [&](int i) {
        const int c = i % width, position = at[i / width];
        return position >= 0 && c < depth ? from(position, c) : 0.0F;
      },
      [&](int i, float x) { tile[i / width * tile_stride(width) + i % width] = x; });
}

}  // namespace lra::ops::cuda
