// Block-sparse attention: softmax(scale q kᵀ) v over the tokens that each query sees by a plan of
// tiles (ops/block_sparse_attention.h). q, k, v, out [B,H,N,d].
//
// Traffic: a block reads 64 rows of queries once and, in steps of 32, the rows of the keys they
// see; q and out pass once, k and v as often as a tile of queries sees them. Backward the same for
// the gradient of q, and for those of k and v with queries and keys in each other's place.
// Work: a block a tile of queries (or keys), head and sample; see softmax_tiles.h.
#include "attention_variants/ops/cuda/kernels/heads/block_sparse_attention.h"

#include "attention_variants/ops/cuda/kernels/heads/softmax_backward.h"

namespace lra::ops::cuda {
namespace {

// What all kernels know of the sample and head of their block.
struct SparseItem {
  int b, h;
  PatternHead head;
  const bool* mask;
  int64_t stats;  // where the head's numbers of queries begin

  __device__ explicit SparseItem(const BlockSparseParams& p)
      : b(static_cast<int>(blockIdx.y) / p.heads),
        h(static_cast<int>(blockIdx.y) % p.heads),
        head(p.plan.heads[p.plan.patterns == 1 ? 0 : h]),
        mask(p.mask == nullptr ? nullptr : p.mask + static_cast<int64_t>(b) * p.length),
        stats(static_cast<int64_t>(blockIdx.y) * p.length) {}

  __device__ bool token(int at) const { return mask == nullptr || mask[at]; }
};

// Rows are queries, columns are keys.
struct QueriesToKeys {
  static constexpr bool kSelf = false;

  // Of row r, -1 for none; of padding too.
  __device__ int query(int r) const { return tile.begin + r < tile.end ? tile.begin + r : -1; }
  __device__ void read_rows(int* at) const {
    const int r = static_cast<int>(threadIdx.x);
    if (r < kTileRows) at[r] = query(r) >= 0 && item.token(query(r)) ? query(r) : -1;
  }
  __device__ int columns() const { return tile.count; }
  __device__ Column column(int j) const {
    const int at = keys[j];
    if (!item.token(at)) return kNoColumn;
    if (j < tile.unbounded) return {at, 0, length};
    return {at, at - item.head.after, at + item.head.before};
  }

  const SparseItem& item;
  QueryTile tile;
  const int32_t* keys;
  int length;
};

// Rows are keys, columns are queries.
struct KeysToQueries {
  static constexpr bool kSelf = false;

  __device__ void read_rows(int* at) const {
    const int r = static_cast<int>(threadIdx.x);
    if (r < kTileRows) at[r] = r < tile.count && item.token(positions[r]) ? positions[r] : -1;
  }
  __device__ int columns() const { return tile.parts * kTileColumns; }
  __device__ Column column(int j) const {
    const QueryPart part = parts[j / kTileColumns];
    const int at = part.begin + j % kTileColumns;
    if (at >= part.end || !item.token(at)) return kNoColumn;
    if (part.bounded == 0) return {at, 0, length};
    return {at, at - item.head.before, at + item.head.after};
  }

  const SparseItem& item;
  KeyTile tile;
  const int32_t* positions;
  const QueryPart* parts;
  int length;
};

// Writes fragments of rows to their positions; position(r) of a row, -1 for none.
template <class T, int tiles, class Position>
__device__ __forceinline__ void store_rows(const float (&from)[tiles][4], int depth,
                                           const MutableHeads& to, const SparseItem& item,
                                           const Position& position) {
  T* const head = head_of<T>(to, item.b, item.h);
  for_each_element(from, [&](int r, int c, float x) {
    const int at = position(r);
    if (at >= 0 && c < depth) head[at * to.row + c] = from_float<T>(x);
  });
}

__device__ QueriesToKeys queries_of(const BlockSparseParams& p, const SparseItem& item) {
  const QueryTile tile =
      p.plan.query_tiles[item.head.first_query_tile + static_cast<int>(blockIdx.x)];
  return {item, tile, p.plan.keys + tile.first, p.length};
}

template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) block_sparse_forward(BlockSparseParams p) {
  const SparseItem item(p);
  if (static_cast<int>(blockIdx.x) >= item.head.query_tiles) return;
  Shared shared = block_shared();
  const SoftmaxTiles<width> tiles(shared);
  const QueriesToKeys pairs = queries_of(p, item);
  SoftmaxSums<width> sums =
      softmax_forward<T, width>(pairs, p.depth, tiles, HeadRows<T>(p.q, item.b, item.h, p.scale),
                                HeadRows<T>(p.k, item.b, item.h), HeadRows<T>(p.v, item.b, item.h));
  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) inverse[h] = sums.sum[h] > 0 ? 1 / sums.sum[h] : 0.0F;
  scale_fragments(sums.out, inverse);
  store_rows<T>(sums.out, p.depth, p.out, item, [&](int r) { return pairs.query(r); });
  for_each_row([&](int r, int h) {
    const int at = pairs.query(r);
    if (at < 0) return;
    p.top[item.stats + at] = sums.top[h];
    p.inverse[item.stats + at] = inverse[h];
  });
}

// Writes `along` too, which the other part of the backward pass reads.
template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) block_sparse_backward_q(BlockSparseParams p) {
  const SparseItem item(p);
  if (static_cast<int>(blockIdx.x) >= item.head.query_tiles) return;
  Shared shared = block_shared();
  const SoftmaxBackwardTiles<width> tiles(shared);
  const QueriesToKeys pairs = queries_of(p, item);
  float grad[width / 8][4] = {};
  softmax_backward_queries<T, width>(
      pairs, p.depth, tiles, HeadRows<T>(p.q, item.b, item.h, p.scale),
      HeadRows<T>(p.k, item.b, item.h), HeadRows<T>(p.v, item.b, item.h),
      HeadRows<T>(as_const(p.out), item.b, item.h), HeadRows<T>(p.grad_out, item.b, item.h),
      {p.top + item.stats, p.inverse + item.stats, nullptr}, grad);
  const float scale[2] = {p.scale, p.scale};
  scale_fragments(grad, scale);
  store_rows<T>(grad, p.depth, p.grad_q, item, [&](int r) { return pairs.query(r); });
  __syncthreads();
  for_each_row([&](int r, int) {
    const int at = pairs.query(r);
    if (at >= 0) p.along[item.stats + at] = tiles.along[r];
  });
}

template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) block_sparse_backward_kv(BlockSparseParams p) {
  const SparseItem item(p);
  if (static_cast<int>(blockIdx.x) >= item.head.key_tiles) return;
  Shared shared = block_shared();
  const SoftmaxBackwardTiles<width> tiles(shared);
  const KeyTile tile = p.plan.key_tiles[item.head.first_key_tile + static_cast<int>(blockIdx.x)];
  const KeysToQueries pairs = {item, tile, p.plan.positions + tile.first,
                               p.plan.parts + tile.first_part, p.length};
  float grad_k[width / 8][4] = {}, grad_v[width / 8][4] = {};
  softmax_backward_keys<T, width>(
      pairs, p.depth, tiles, HeadRows<T>(p.q, item.b, item.h, p.scale),
      HeadRows<T>(p.k, item.b, item.h), HeadRows<T>(p.v, item.b, item.h),
      HeadRows<T>(p.grad_out, item.b, item.h),
      {p.top + item.stats, p.inverse + item.stats, p.along + item.stats}, grad_k, grad_v);
  const auto position = [&](int r) { return r < tile.count ? pairs.positions[r] : -1; };
  store_rows<T>(grad_k, p.depth, p.grad_k, item, position);
  store_rows<T>(grad_v, p.depth, p.grad_v, item, position);
}

Dim3 tile_grid(int tiles, const BlockSparseParams& p) { return grid_of(tiles, p.batch * p.heads); }

}  // namespace

void launch_block_sparse_forward(const BlockSparseParams& p, Stream stream) {
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    launch(block_sparse_forward<T, kWidth>, tile_grid(p.plan.most_query_tiles, p),
           Dim3{kTileThreads}, SoftmaxTiles<kWidth>::bytes(), stream, p);
  });
}

void launch_block_sparse_backward(const BlockSparseParams& p, Stream stream) {
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    constexpr size_t kBytes = SoftmaxBackwardTiles<kWidth>::bytes();
    launch(block_sparse_backward_q<T, kWidth>, tile_grid(p.plan.most_query_tiles, p),
           Dim3{kTileThreads}, kBytes, stream, p);
    launch(block_sparse_backward_kv<T, kWidth>, tile_grid(p.plan.most_key_tiles, p),
           Dim3{kTileThreads}, kBytes, stream, p);
  });
}

}  // namespace lra::ops::cuda
