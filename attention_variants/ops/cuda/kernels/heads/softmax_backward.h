// The backward pass of softmax_tiles.h.
#pragma once

#include "attention_variants/ops/cuda/kernels/heads/softmax_tiles.h"

namespace lra::ops::cuda {

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
  const int r = static_cast<int>(threadIdx.x) / 2, half = static_cast<int>(threadIdx.x) % 2,
            at = tiles.row_at[r];
  const float* const grad = tiles.row_values + r * tile_stride(width);
  float sum = 0;
  if (at >= 0 && out.in_fours(depth)) {
#pragma unroll 4
    for (int c = 4 * half; c < depth; c += 8) {
      const float4 x = out.four(at, c), y = load4(grad + c);
      sum = fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, fmaf(x.w, y.w, sum))));
    }
  } else if (at >= 0) {
#pragma unroll 4
    for (int c = half; c < depth; c += 2) sum = fmaf(out(at, c), grad[c], sum);
  }
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
  load_rows<width, kTileRows>(q, depth, tiles.row_at, tiles.rows);
  load_rows<width, kTileRows>(grad_out, depth, tiles.row_at, tiles.row_values);
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
    load_rows<width, kTileColumns>(k, depth, tiles.columns.at, tiles.column_rows);
    load_rows<width, kTileColumns>(v, depth, tiles.columns.at, tiles.column_values);
    __syncthreads();
    float weights[kTileColumns / 8][4] = {}, slopes[kTileColumns / 8][4] = {};
    multiply_add<kSplit<T>, kStepsAhead<width>>(
        warp_rows<width>(tiles.rows), transposed<width>(tiles.column_rows), width, weights);
    multiply_add<kSplit<T>, kStepsAhead<width>>(
        warp_rows<width>(tiles.row_values), transposed<width>(tiles.column_values), width, slopes);
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
  load_rows<width, kTileRows>(k, depth, tiles.row_at, tiles.rows);
  load_rows<width, kTileRows>(v, depth, tiles.row_at, tiles.row_values);
  const auto of_column = [&](int, int j) {
    return QueryRow{tiles.top[j], tiles.inverse[j], tiles.along[j]};
  };
  const int columns = any_position(tiles.row_at) ? pairs.columns() : 0;
  for (int first = 0; first < columns; first += kTileColumns) {
    if (!tiles.columns.read(pairs, first)) continue;
    load_rows<width, kTileColumns>(q, depth, tiles.columns.at, tiles.column_rows);
    load_rows<width, kTileColumns>(grad_out, depth, tiles.columns.at, tiles.column_values);
    tiles.read_stats(stats, tiles.columns.at, kTileColumns);
    __syncthreads();
    float weights[kTileColumns / 8][4] = {}, slopes[kTileColumns / 8][4] = {};
    multiply_add<kSplit<T>, kStepsAhead<width>, Factors::swapped>(
        warp_rows<width>(tiles.rows), transposed<width>(tiles.column_rows), width, weights);
    multiply_add<kSplit<T>, kStepsAhead<width>, Factors::swapped>(
        warp_rows<width>(tiles.row_values), transposed<width>(tiles.column_values), width, slopes);
    softmax_slopes<Pairs::kSelf>(tiles, of_column, weights, slopes);
    tiles.template mix<kSplit<T>>(weights, tiles.column_values, grad_v);
    tiles.template mix<kSplit<T>>(slopes, tiles.column_rows, grad_k);
  }
}

}  // namespace lra::ops::cuda
