// Softmax attention of 64 positions to any list of others, 32 at a time, forward and backward: what
// kernels of sparse patterns share. A thread block has four warps of 16 rows. Which positions the
// rows and the columns have, and which rows see a column, is said by a Pairs:
//   kSelf             whether a position's score with itself is kSelfScore, a constant
//   read_rows(at)     writes the rows' positions at [64], -1 for none
//   columns()         how many columns there are
//   column(j)         a Column, or kNoColumn
// The forward pass is FlashAttention's (Dao et al., NeurIPS 2022); the backward pass is taken once
// with queries as rows, for their gradients, and once with keys as rows for theirs, so that each
// gradient is one block's sum in a fixed order. Scores of both are the same to the last bit.
#pragma once

#include "attention_variants/ops/cuda/kernels/heads/row_tiles.h"
#include "attention_variants/ops/cuda/kernels/heads/tile_product.h"
#include "attention_variants/ops/cuda/kernels/heads/width.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cuda {

/// A position, and from which to which positions rows see it.
struct Column {
  int at, low, high;
};
inline constexpr Column kNoColumn = {-1, 1, 0};

/// The columns of a step, in shared memory.
struct ColumnTile {
  int *at, *low, *high;  // [kTileColumns]

  __device__ explicit ColumnTile(Shared& shared)
      : at(shared.take<int>(kTileColumns)),
        low(shared.take<int>(kTileColumns)),
        high(shared.take<int>(kTileColumns)) {}

  /// Reads columns from number `first` on; false where no row sees any, and nothing is to be done.
  template <class Pairs>
  __device__ bool read(const Pairs& pairs, int first) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, j = first + lane;
    __syncthreads();  // the last step's are read until here
    const Column column = j < pairs.columns() ? pairs.column(j) : kNoColumn;
    if (threadIdx.x < kTileColumns) {
      at[lane] = column.at;
      low[lane] = column.low < 0 ? 0 : column.low;  // rows of no position are at -1
      high[lane] = column.high;
    }
    __syncthreads();
    return __any_sync(kAllLanes, column.low <= column.high) != 0;
  }

  __device__ __forceinline__ bool seen(int row_at, int j) const {
    return row_at >= low[j] && row_at <= high[j];
  }
  template <bool self>
  __device__ __forceinline__ float score(float product, int row_at, int j) const {
    if (!seen(row_at, j)) return -INFINITY;
    return self && at[j] == row_at ? kSelfScore : product;
  }
};

/// A warp's rows of a tile in shared memory, and views of a tile as either factor.
template <int width>
__device__ __forceinline__ TileView warp_rows(const float* tile) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return {tile + warp * kWarpRows * tile_stride(width), tile_stride(width), 1};
}
template <int width>
__device__ __forceinline__ TileView transposed(const float* tile) {
  return {tile, 1, tile_stride(width)};
}
template <int width>
__device__ __forceinline__ TileView upright(const float* tile) {
  return {tile, tile_stride(width), 1};
}

/// Calls body(r, c, element) of all elements of a product of 64 rows that a lane holds.
template <int tiles, class Body>
__device__ __forceinline__ void for_each_element(const float (&x)[tiles][4], const Body& body) {
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) body(first + fragment_row(e), 8 * n + fragment_column(e), x[n][e]);
  }
}

/// Calls body(n, e, r, j) of the same elements: x[n][e] is of row r and column j.
template <int tiles, class Body>
__device__ __forceinline__ void for_each_column(float (&)[tiles][4], const Body& body) {
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) body(n, e, first + fragment_row(e), 8 * n + fragment_column(e));
  }
}

/// Calls body(r, h) of both rows that a lane holds, in one lane each.
template <class Body>
__device__ __forceinline__ void for_each_row(const Body& body) {
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  if (threadIdx.x % 4 != 0) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) body(first + fragment_row(2 * h), h);
}

/// The tiles of either pass: rows with their positions, columns, and weights between them.
template <int width>
struct SoftmaxTiles {
  __device__ explicit SoftmaxTiles(Shared& shared)
      : row_at(shared.take<int>(kTileRows)),
        columns(shared),
        rows(shared.take<float>(kTileRows * tile_stride(width))),
        column_rows(shared.take<float>(kTileColumns * tile_stride(width))),
        column_values(shared.take<float>(kTileColumns * tile_stride(width))),
        weights(shared.take<float>(kTileRows * tile_stride(kTileColumns))) {}

  static constexpr size_t bytes() {
    return shared_bytes<int>(kTileRows) + 3 * shared_bytes<int>(kTileColumns) +
           shared_bytes<float>((kTileRows + 2 * kTileColumns) * tile_stride(width)) +
           shared_bytes<float>(kTileRows * tile_stride(kTileColumns));
  }

  __device__ int position(int e) const {
    return row_at[static_cast<int>(threadIdx.x) / 32 * kWarpRows + fragment_row(e)];
  }
  __device__ float* warp_weights() const {
    return weights + static_cast<int>(threadIdx.x) / 32 * kWarpRows * tile_stride(kTileColumns);
  }
  /// sum += weights times the rows of a tile, given the weights of the warp's rows.
  template <bool split, int tiles>
  __device__ __forceinline__ void mix(const float (&fragments)[kTileColumns / 8][4],
                                      const float* tile, float (&sum)[tiles][4]) const {
    __syncwarp();  // what was mixed before is read until here
    write_fragments(fragments, warp_weights(), tile_stride(kTileColumns));
    __syncwarp();
    multiply_add<split, kStepsAhead<width>>({warp_weights(), tile_stride(kTileColumns), 1},
                                            upright<width>(tile), kTileColumns, sum);
  }

  int* row_at;
  ColumnTile columns;
  float *rows, *column_rows, *column_values, *weights;
};

/// What a lane holds of its two rows, forward: the sums of exp(score - top) and of that times v.
template <int width>
struct SoftmaxSums {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {}, out[width / 8][4] = {};

  /// scores become exp(score - top), and all that was summed is brought to the new top.
  __device__ void add(float (&scores)[kTileColumns / 8][4]) {
    float shift[2], old[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = top[h];
#pragma unroll
      for (int n = 0; n < kTileColumns / 8; ++n)
        most = fmaxf(most, fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
      most = row_max(most);
      shift[h] = most == -INFINITY ? 0.0F : most;
      old[h] = expf(top[h] - shift[h]);
      top[h] = most;
      sum[h] *= old[h];
    }
    scale_fragments(out, old);
#pragma unroll
    for (int n = 0; n < kTileColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[n][e] = expf(scores[n][e] - shift[e / 2]);
        sum[e / 2] += scores[n][e];
      }
    }
  }

  /// When all columns are in.
  __device__ void finish() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] = row_sum(sum[h]);
      if (top[h] == -INFINITY) top[h] = 0;
    }
  }
};

/// Whether a tile's rows have any position.
__device__ __forceinline__ bool any_position(const int* row_at) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return __any_sync(kAllLanes, row_at[lane] >= 0 || row_at[lane + 32] >= 0) != 0;
}

/// Products become scores.
template <bool self, int width>
__device__ __forceinline__ void mask_scores(const SoftmaxTiles<width>& tiles,
                                            float (&scores)[kTileColumns / 8][4]) {
#pragma unroll
  for (int n = 0; n < kTileColumns / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      scores[n][e] = tiles.columns.template score<self>(scores[n][e], tiles.position(e),
                                                        8 * n + fragment_column(e));
    }
  }
}

/// The sums of the rows of `pairs`, queries, over the columns, keys. Of a tile without any
/// position nothing is summed.
template <class T, int width, class Pairs>
__device__ __forceinline__ SoftmaxSums<width> softmax_forward(const Pairs& pairs, int depth,
                                                              const SoftmaxTiles<width>& tiles,
                                                              const HeadRows<T>& q,
                                                              const HeadRows<T>& k,
                                                              const HeadRows<T>& v) {
  SoftmaxSums<width> sums;
  pairs.read_rows(tiles.row_at);
  __syncthreads();
  load_rows<width, kTileRows>(q, depth, tiles.row_at, tiles.rows);
  const int columns = any_position(tiles.row_at) ? pairs.columns() : 0;
  for (int first = 0; first < columns; first += kTileColumns) {
    if (!tiles.columns.read(pairs, first)) continue;
    load_rows<width, kTileColumns>(k, depth, tiles.columns.at, tiles.column_rows);
    load_rows<width, kTileColumns>(v, depth, tiles.columns.at, tiles.column_values);
    __syncthreads();
    float scores[kTileColumns / 8][4] = {};
    multiply_add<kSplit<T>, kStepsAhead<width>>(
        warp_rows<width>(tiles.rows), transposed<width>(tiles.column_rows), width, scores);
    mask_scores<Pairs::kSelf>(tiles, scores);
    sums.add(scores);
    tiles.template mix<kSplit<T>>(scores, tiles.column_values, sums.out);
  }
  sums.finish();
  return sums;
}

}  // namespace lra::ops::cuda
