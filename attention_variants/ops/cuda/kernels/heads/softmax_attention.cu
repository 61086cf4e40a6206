// Softmax attention: softmax(scale q kᵀ) v of q [B,H,M,d] over k, v [B,H,N,d], of which the
// attentions have M or N few (ops/softmax_attention.h, ops/landmark_attention.h).
//
// Traffic: a block reads 64 rows of queries once and a range of the keys in steps of 32; q and out
// pass once, k and v once for every 64 queries. Backward the same for the gradient of q, and for
// those of k and v with queries and keys in each other's place. Work: a block 64 rows and a range,
// of a head. Several ranges, where rows are few, write parts [ranges,B,H,rows,d] (and forward two
// numbers a row), which another launch sums in order (as "flash decoding" does, Dao et al., 2023).
#include "attention_variants/ops/cuda/kernels/heads/softmax_attention.h"

#include "attention_variants/ops/cuda/kernels/heads/softmax_backward.h"

namespace lra::ops::cuda {
namespace {

// Columns [begin, end) of a range, of whole steps.
struct Range {
  int begin, end;

  __device__ Range(int number, int ranges, int columns) {
    const int steps = (columns + kTileColumns - 1) / kTileColumns;
    begin = static_cast<int>(int64_t{steps} * number / ranges) * kTileColumns;
    end = static_cast<int>(int64_t{steps} * (number + 1) / ranges) * kTileColumns;
    if (end > columns) end = columns;
  }
};

// What a launch does: rows of one side, in tiles, and ranges of the other.
struct Sides {
  const bool *row_mask, *column_mask;
  int rows, columns, ranges;
};

Sides queries_to_keys(const SoftmaxParams& p) {
  return {p.query_mask, p.key_mask, p.queries, p.keys,
          static_cast<int>(softmax_ranges(p, p.queries, p.keys))};
}
Sides keys_to_queries(const SoftmaxParams& p) {
  return {p.key_mask, p.query_mask, p.keys, p.queries,
          static_cast<int>(softmax_ranges(p, p.keys, p.queries))};
}

struct Pass {
  SoftmaxParams params;
  Sides sides;
};

// The pairs of a block (blockIdx: tile, range, head).
struct RangePairs {
  static constexpr bool kSelf = false;

  __device__ explicit RangePairs(const Pass& pass)
      : b(static_cast<int>(blockIdx.z) / pass.params.heads),
        h(static_cast<int>(blockIdx.z) % pass.params.heads),
        first(static_cast<int>(blockIdx.x) * kTileRows),
        sides(pass.sides),
        range(static_cast<int>(blockIdx.y), pass.sides.ranges, pass.sides.columns) {}

  __device__ void read_rows(int* at) const {
    const int r = static_cast<int>(threadIdx.x);
    if (r < kTileRows) at[r] = seen(sides.row_mask, sides.rows, first + r) ? first + r : -1;
  }
  __device__ int columns() const { return range.end - range.begin; }
  __device__ Column column(int j) const {
    const int at = range.begin + j;
    return seen(sides.column_mask, sides.columns, at) ? Column{at, 0, sides.rows} : kNoColumn;
  }
  __device__ bool seen(const bool* mask, int length, int at) const {
    return at < length && (mask == nullptr || mask[static_cast<int64_t>(b) * length + at]);
  }

  // A row, and where the block's part of it stands among those [ranges,B,H,rows].
  __device__ int row(int r) const { return first + r < sides.rows ? first + r : -1; }
  __device__ int64_t part(int at) const {
    return (static_cast<int64_t>(blockIdx.y) * gridDim.z + blockIdx.z) * sides.rows + at;
  }
  // Of all rows [B,H,rows].
  __device__ int64_t item() const { return static_cast<int64_t>(blockIdx.z) * sides.rows; }

  int b, h, first;
  Sides sides;
  Range range;
};

template <class T>
__device__ __forceinline__ void add_to(T& sum, float x) {
  sum = from_float<T>(to_float(sum) + x);
}

// Writes a block's rows, or its part of them where there are several ranges.
template <class T, int width>
__device__ __forceinline__ void store_rows(const RangePairs& pairs, int depth,
                                           const float (&from)[width / 8][4],
                                           const MutableHeads& to, float* parts,
                                           const MutableHeads& sum = {}) {
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  T* const rows = head_of<T>(to, pairs.b, pairs.h);
  T* const sums = sum.data == nullptr ? nullptr : head_of<T>(sum, pairs.b, pairs.h);
#pragma unroll
  for (int n = 0; n < width / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int c = 8 * n + fragment_column(e), at = pairs.row(first + fragment_row(e));
      if (at < 0 || c >= depth) continue;
      if (pairs.sides.ranges > 1) {
        parts[pairs.part(at) * depth + c] = from[n][e];
      } else {
        rows[at * to.row + c] = from_float<T>(from[n][e]);
        if (sums != nullptr) add_to(sums[at * sum.row + c], from[n][e]);
      }
    }
  }
}

// Parts of the forward pass: sums of exp(score - top) v, top, and sums of exp(score - top).
struct ForwardParts {
  float *sums, *top, *sum;
  __host__ __device__ ForwardParts(const SoftmaxParams& p, int ranges)
      : sums(p.scratch),
        top(sums + int64_t{ranges} * p.batch * p.heads * p.queries * p.depth),
        sum(top + int64_t{ranges} * p.batch * p.heads * p.queries) {}
};

template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) softmax_forward_part(Pass pass) {
  const SoftmaxParams& p = pass.params;
  Shared shared = block_shared();
  const SoftmaxTiles<width> tiles(shared);
  const RangePairs pairs(pass);
  const HeadRows<T> q(p.q, pairs.b, pairs.h, p.scale), k(p.k, pairs.b, pairs.h),
      v(p.v, pairs.b, pairs.h);
  SoftmaxSums<width> sums = softmax_forward<T, width>(pairs, p.depth, tiles, q, k, v);
  const bool whole = pass.sides.ranges == 1;
  const ForwardParts parts(p, pass.sides.ranges);
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int at = pairs.row(first + fragment_row(2 * h));
    const float inverse = sums.sum[h] > 0 ? 1 / sums.sum[h] : 0.0F;
    if (threadIdx.x % 4 == 0 && at >= 0) {
      (whole ? p.top + pairs.item() + at : parts.top + pairs.part(at))[0] = sums.top[h];
      (whole ? p.inverse + pairs.item() + at : parts.sum + pairs.part(at))[0] =
          whole ? inverse : sums.sum[h];
    }
    sums.sum[h] = whole ? inverse : 1.0F;
  }
  scale_fragments(sums.out, sums.sum);
  store_rows<T, width>(pairs, p.depth, sums.out, p.out, parts.sums, p.sum);
}

// Joins the parts of a query, which is a warp's.
template <class T>
__global__ void __launch_bounds__(kTileThreads, 1) softmax_join(Pass pass) {
  const SoftmaxParams& p = pass.params;
  const int ranges = pass.sides.ranges, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t rows = int64_t{p.batch} * p.heads * p.queries,
                row = static_cast<int64_t>(blockIdx.x) * (kTileThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const ForwardParts parts(p, ranges);
  float top = -INFINITY, sum = 0;
  for (int i = 0; i < ranges; ++i) {
    if (parts.sum[i * rows + row] > 0) top = fmaxf(top, parts.top[i * rows + row]);
  }
  const auto weight = [&](int i) {
    return parts.sum[i * rows + row] > 0 ? expf(parts.top[i * rows + row] - top) : 0.0F;
  };
  for (int i = 0; i < ranges; ++i) sum = fmaf(weight(i), parts.sum[i * rows + row], sum);
  const float inverse = sum > 0 ? 1 / sum : 0.0F;
  if (lane == 0) {
    p.top[row] = sum > 0 ? top : 0.0F;
    p.inverse[row] = inverse;
  }
  const int64_t item = row / p.queries, b = item / p.heads, h = item % p.heads,
                at = row % p.queries;
  T* const out = head_of<T>(p.out, b, h) + at * p.out.row;
  for (int c = lane; c < p.depth; c += 32) {
    float all = 0;
    for (int i = 0; i < ranges; ++i)
      all = fmaf(weight(i), parts.sums[(i * rows + row) * p.depth + c], all);
    out[c] = from_float<T>(all * inverse);
    if (p.sum.data != nullptr) add_to(head_of<T>(p.sum, b, h)[at * p.sum.row + c], all * inverse);
  }
}

// Writes `along` too, which the other part of the backward pass reads.
template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) softmax_backward_q(Pass pass) {
  const SoftmaxParams& p = pass.params;
  Shared shared = block_shared();
  const SoftmaxBackwardTiles<width> tiles(shared);
  const RangePairs pairs(pass);
  float grad[width / 8][4] = {};
  softmax_backward_queries<T, width>(
      pairs, p.depth, tiles, HeadRows<T>(p.q, pairs.b, pairs.h, p.scale),
      HeadRows<T>(p.k, pairs.b, pairs.h), HeadRows<T>(p.v, pairs.b, pairs.h),
      HeadRows<T>(as_const(p.out), pairs.b, pairs.h), HeadRows<T>(p.grad_out, pairs.b, pairs.h),
      {p.top + pairs.item(), p.inverse + pairs.item(), nullptr}, grad);
  __syncthreads();
  const int at = pairs.row(static_cast<int>(threadIdx.x));
  if (blockIdx.y == 0 && threadIdx.x < kTileRows && at >= 0)
    p.along[pairs.item() + at] = tiles.along[threadIdx.x];
  const float scale[2] = {p.scale, p.scale};
  scale_fragments(grad, scale);
  store_rows<T, width>(pairs, p.depth, grad, p.grad_q, p.scratch);
}

template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) softmax_backward_kv(Pass pass) {
  const SoftmaxParams& p = pass.params;
  Shared shared = block_shared();
  const SoftmaxBackwardTiles<width> tiles(shared);
  const RangePairs pairs(pass);
  const int64_t queries = static_cast<int64_t>(blockIdx.z) * p.queries;
  float grad_k[width / 8][4] = {}, grad_v[width / 8][4] = {};
  softmax_backward_keys<T, width>(
      pairs, p.depth, tiles, HeadRows<T>(p.q, pairs.b, pairs.h, p.scale),
      HeadRows<T>(p.k, pairs.b, pairs.h), HeadRows<T>(p.v, pairs.b, pairs.h),
      HeadRows<T>(p.grad_out, pairs.b, pairs.h),
      {p.top + queries, p.inverse + queries, p.along + queries}, grad_k, grad_v);
  store_rows<T, width>(pairs, p.depth, grad_k, p.grad_k, p.scratch);
  float* const parts_v =
      p.scratch + int64_t{pass.sides.ranges} * p.batch * p.heads * p.keys * p.depth;
  store_rows<T, width>(pairs, p.depth, grad_v, p.grad_v, parts_v);
}

// to [B,H,rows,d] = the sum of parts [ranges,B,H,rows,d], in order.
struct PartsSum {
  const float* parts;
  int64_t items;  // B H
  int heads, rows, depth, ranges;
  MutableHeads to[2];  // the parts of the second follow those of the first
};

template <class T>
__global__ void __launch_bounds__(kTileThreads, 1) sum_parts(PartsSum p) {
  const int64_t count = p.items * p.rows * p.depth,
                i = static_cast<int64_t>(blockIdx.x) * kTileThreads + threadIdx.x;
  if (i >= count) return;
  const float* const from = p.parts + blockIdx.y * p.ranges * count + i;
  float sum = 0;
  for (int range = 0; range < p.ranges; ++range) sum += from[range * count];
  const MutableHeads to = blockIdx.y == 0 ? p.to[0] : p.to[1];
  const int64_t row = i / p.depth, item = row / p.rows;
  head_of<T>(to, item / p.heads, item % p.heads)[row % p.rows * to.row + i % p.depth] =
      from_float<T>(sum);
}

Dim3 tile_grid(const SoftmaxParams& p, const Sides& sides) {
  return grid_of(ceil_div(sides.rows, kTileRows), sides.ranges, int64_t{p.batch} * p.heads);
}

// Sums the parts of `count` results.
template <class T>
void launch_sum(const SoftmaxParams& p, const Sides& sides, int count, const MutableHeads& first,
                const MutableHeads& second, Stream stream) {
  if (sides.ranges == 1) return;
  const int64_t items = int64_t{p.batch} * p.heads,
                blocks = ceil_div<int64_t>(items * sides.rows * p.depth, kTileThreads);
  launch(sum_parts<T>, grid_of(blocks, count), {kTileThreads}, 0, stream,
         PartsSum{p.scratch, items, p.heads, sides.rows, p.depth, sides.ranges, {first, second}});
}

}  // namespace

void launch_softmax_forward(const SoftmaxParams& p, Stream stream) {
  const Pass pass = {p, queries_to_keys(p)};
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    launch(softmax_forward_part<T, kWidth>, tile_grid(p, pass.sides), {kTileThreads},
           SoftmaxTiles<kWidth>::bytes(), stream, pass);
    if (pass.sides.ranges == 1) return;
    const int64_t rows = int64_t{p.batch} * p.heads * p.queries;
    launch(softmax_join<T>, grid_of(ceil_div<int64_t>(rows, kTileThreads / 32), 1), {kTileThreads},
           0, stream, pass);
  });
}

void launch_softmax_backward(const SoftmaxParams& p, Stream stream) {
  const Pass queries = {p, queries_to_keys(p)}, keys = {p, keys_to_queries(p)};
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    launch(softmax_backward_q<T, kWidth>, tile_grid(p, queries.sides), {kTileThreads},
           SoftmaxBackwardTiles<kWidth>::bytes(), stream, queries);
    launch_sum<T>(p, queries.sides, 1, p.grad_q, p.grad_q, stream);
    launch(softmax_backward_kv<T, kWidth>, tile_grid(p, keys.sides), {kTileThreads},
           SoftmaxBackwardTiles<kWidth>::bytes(), stream, keys);
    launch_sum<T>(p, keys.sides, 2, p.grad_k, p.grad_v, stream);
  });
}

}  // namespace lra::ops::cuda
