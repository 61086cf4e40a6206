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

#include "attention_variants/ops/cuda/kernels/head_rows.h"
#include "attention_variants/ops/cuda/kernels/tile_product.h"
#include "attention_variants/ops/cuda/kernels/width.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cuda {

inline constexpr int kTileRows = 64, kTileColumns = 32, kTileThreads = 128;

/// A position, and from which to which positions rows see it.
struct Column {
  int at, low, high;
};
inline constexpr Column kNoColumn = {-1, 1, 0};

/// A result, read.
__device__ __forceinline__ Heads as_const(const MutableHeads& heads) {
  return {heads.data, heads.batch, heads.head, heads.row};
}

/// Rows of a head of a sample.
template <class T>
__device__ __forceinline__ T* head_of(const MutableHeads& heads, int b, int h) {
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

  /// Whatever stands at c >= depth is not read.
  __device__ __forceinline__ float operator()(int at, int c) const {
    const float x = to_float(data[at * row + c]) * factor;
    return factors == nullptr ? x : x * factors[at];
  }
};

/// tile [rows,tile_stride(width)] = the rows at these positions, zero for none and beyond `depth`.
template <int width, class T>
__device__ __forceinline__ void load_rows(const HeadRows<T>& from, int depth, const int* at,
                                          int rows, float* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kTileThreads) {
    const int r = i / width, c = i % width, position = at[r];
    tile[r * tile_stride(width) + c] = position >= 0 && c < depth ? from(position, c) : 0.0F;
  }
}

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
    multiply_add<split>({warp_weights(), tile_stride(kTileColumns), 1}, upright<width>(tile),
                        kTileColumns, sum);
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
  load_rows<width>(q, depth, tiles.row_at, kTileRows, tiles.rows);
  const int columns = any_position(tiles.row_at) ? pairs.columns() : 0;
  for (int first = 0; first < columns; first += kTileColumns) {
    if (!tiles.columns.read(pairs, first)) continue;
    load_rows<width>(k, depth, tiles.columns.at, kTileColumns, tiles.column_rows);
    load_rows<width>(v, depth, tiles.columns.at, kTileColumns, tiles.column_values);
    __syncthreads();
    float scores[kTileColumns / 8][4] = {};
    multiply_add<kSplit<T>>(warp_rows<width>(tiles.rows), transposed<width>(tiles.column_rows),
                            width, scores);
    mask_scores<Pairs::kSelf>(tiles, scores);
    sums.add(scores);
    tiles.template mix<kSplit<T>>(scores, tiles.column_values, sums.out);
  }
  sums.finish();
  return sums;
}

/// What the backward pass reads of the queries beside, by position, of one head: a weight is
/// exp(score - top) inverse, 0 and 0 where nothing is seen; along is the product of a result and
/// its gradient, null where it is not known yet.
struct QueryStats {
  const float *top, *inverse, *along;  // [N]
};

struct QueryRow {
  float top, inverse, along;
};

/// The gradient of a weighted sum's weights [16,kTileColumns] becomes that of their scores;
/// `weights`, the scores, become weights. Of each pair stats(e, j) gives the query's.
template <bool self, int width, class Stats>
__device__ __forceinline__ void softmax_slopes(const SoftmaxTiles<width>& tiles, const Stats& stats,
                                               float (&weights)[kTileColumns / 8][4],
                                               float (&slopes)[kTileColumns / 8][4]) {
#pragma unroll
  for (int n = 0; n < kTileColumns / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int j = 8 * n + fragment_column(e), at = tiles.position(e);
      const QueryRow row = stats(e, j);
      const float score = tiles.columns.template score<self>(weights[n][e], at, j);
      weights[n][e] = expf(score - row.top) * row.inverse;
      slopes[n][e] =
          self && tiles.columns.at[j] == at ? 0.0F : weights[n][e] * (slopes[n][e] - row.along);
    }
  }
}

/// A second tile of rows and numbers of the queries, backward.
template <int width>
struct SoftmaxBackwardTiles : SoftmaxTiles<width> {
  __device__ explicit SoftmaxBackwardTiles(Shared& shared)
      : SoftmaxTiles<width>(shared),
        row_values(shared.take<float>(kTileRows * tile_stride(width))),
        top(shared.take<float>(kTileRows)),
        inverse(shared.take<float>(kTileRows)),
        along(shared.take<float>(kTileRows)) {}

  static constexpr size_t bytes() {
    return SoftmaxTiles<width>::bytes() + shared_bytes<float>(kTileRows * tile_stride(width)) +
           3 * shared_bytes<float>(kTileRows);
  }

  /// Reads top and inverse of `count` queries at these positions; 0 of none.
  __device__ void read_stats(const QueryStats& from, const int* at, int count) const {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kTileThreads) {
      const bool there = at[i] >= 0;
      top[i] = there ? from.top[at[i]] : 0.0F;
      inverse[i] = there ? from.inverse[at[i]] : 0.0F;
      along[i] = there && from.along != nullptr ? from.along[at[i]] : 0.0F;
    }
  }

  float *row_values, *top, *inverse, *along;
};

/// The rows' products of out and its gradient, whose rows stand in row_values, to `along`: two
/// threads a row.
template <int width, class T>
__device__ __forceinline__ void row_products(const SoftmaxBackwardTiles<width>& tiles,
                                             const HeadRows<T>& out, int depth) {
  const int r = static_cast<int>(threadIdx.x) / 2, at = tiles.row_at[r];
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x) % 2; at >= 0 && c < depth; c += 2)
    sum = fmaf(out(at, c), tiles.row_values[r * tile_stride(width) + c], sum);
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  if (threadIdx.x % 2 == 0) tiles.along[r] = sum;
}

/// grad [16,width] of a warp, given the gradient of the scores: that of the rows, queries, as they
/// were multiplied with the keys. Leaves `along` of the rows in the tiles.
template <class T, int width, class Pairs>
__device__ __forceinline__ void softmax_backward_queries(
    const Pairs& pairs, int depth, const SoftmaxBackwardTiles<width>& tiles, const HeadRows<T>& q,
    const HeadRows<T>& k, const HeadRows<T>& v, const HeadRows<T>& out, const HeadRows<T>& grad_out,
    const QueryStats& stats, float (&grad)[width / 8][4]) {
  pairs.read_rows(tiles.row_at);
  __syncthreads();
  load_rows<width>(q, depth, tiles.row_at, kTileRows, tiles.rows);
  load_rows<width>(grad_out, depth, tiles.row_at, kTileRows, tiles.row_values);
  tiles.read_stats(stats, tiles.row_at, kTileRows);
  __syncthreads();
  row_products(tiles, out, depth);
  const int first_row = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const auto of_row = [&](int e, int) {
    const int r = first_row + fragment_row(e);
    return QueryRow{tiles.top[r], tiles.inverse[r], tiles.along[r]};
  };
  const int columns = any_position(tiles.row_at) ? pairs.columns() : 0;
  for (int first = 0; first < columns; first += kTileColumns) {
    if (!tiles.columns.read(pairs, first)) continue;
    load_rows<width>(k, depth, tiles.columns.at, kTileColumns, tiles.column_rows);
    load_rows<width>(v, depth, tiles.columns.at, kTileColumns, tiles.column_values);
    __syncthreads();
    float weights[kTileColumns / 8][4] = {}, slopes[kTileColumns / 8][4] = {};
    multiply_add<kSplit<T>>(warp_rows<width>(tiles.rows), transposed<width>(tiles.column_rows),
                            width, weights);
    multiply_add<kSplit<T>>(warp_rows<width>(tiles.row_values),
                            transposed<width>(tiles.column_values), width, slopes);
    softmax_slopes<Pairs::kSelf>(tiles, of_row, weights, slopes);
    tiles.template mix<kSplit<T>>(slopes, tiles.column_rows, grad);
  }
}

/// grad_k and grad_v [16,width] of a warp: of the rows, keys, as they were multiplied with the
/// queries, which are the columns.
template <class T, int width, class Pairs>
__device__ __forceinline__ void softmax_backward_keys(
    const Pairs& pairs, int depth, const SoftmaxBackwardTiles<width>& tiles, const HeadRows<T>& q,
    const HeadRows<T>& k, const HeadRows<T>& v, const HeadRows<T>& grad_out,
    const QueryStats& stats, float (&grad_k)[width / 8][4], float (&grad_v)[width / 8][4]) {
  pairs.read_rows(tiles.row_at);
  __syncthreads();
  load_rows<width>(k, depth, tiles.row_at, kTileRows, tiles.rows);
  load_rows<width>(v, depth, tiles.row_at, kTileRows, tiles.row_values);
  const auto of_column = [&](int, int j) {
    return QueryRow{tiles.top[j], tiles.inverse[j], tiles.along[j]};
  };
  const int columns = any_position(tiles.row_at) ? pairs.columns() : 0;
  for (int first = 0; first < columns; first += kTileColumns) {
    if (!tiles.columns.read(pairs, first)) continue;
    load_rows<width>(q, depth, tiles.columns.at, kTileColumns, tiles.column_rows);
    load_rows<width>(grad_out, depth, tiles.columns.at, kTileColumns, tiles.column_values);
    tiles.read_stats(stats, tiles.columns.at, kTileColumns);
    __syncthreads();
    float weights[kTileColumns / 8][4] = {}, slopes[kTileColumns / 8][4] = {};
    multiply_add<kSplit<T>, Factors::swapped>(warp_rows<width>(tiles.rows),
                                              transposed<width>(tiles.column_rows), width, weights);
    multiply_add<kSplit<T>, Factors::swapped>(
        warp_rows<width>(tiles.row_values), transposed<width>(tiles.column_values), width, slopes);
    softmax_slopes<Pairs::kSelf>(tiles, of_column, weights, slopes);
    tiles.template mix<kSplit<T>>(weights, tiles.column_values, grad_v);
    tiles.template mix<kSplit<T>>(slopes, tiles.column_rows, grad_k);
  }
}

}  // namespace lra::ops::cuda
