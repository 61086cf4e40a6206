// Sums over positions Σ_j e(x_j) [y_j w_j], e the features of linear attention (feature_sums.h): S
// of the keys forward, its gradient backward. x, y [N,d] of a head, sums [f,d+1].
//
// Traffic: x and y once a tile of 64 features, 1 + f/64 times [f+1,d+1] a stretch of positions out
// and in. Work: a block 64 features of one stretch of positions of one head, which keep their sums
// in registers; then a thread an element adds up the stretches in their order. Of softmax each
// feature of keys has the largest of its own W x as its shift, until all are known (Choromanski et
// al., ICLR 2021; Milakov & Gimelshein, arXiv 2018).
#include "attention_variants/ops/cuda/kernels/heads/feature_sums.h"

#include "attention_variants/ops/cuda/kernels/heads/feature_tiles.h"

namespace lra::ops::cuda {
namespace {

constexpr int kCombineThreads = 128;

// Tiles of 64 features and 32 positions.
template <int width>
struct SumTiles : SoftmaxTiles<width> {
  // row_at: features; columns.at: tokens' positions; rows, column_rows, column_values: W, x, y.
  __device__ explicit SumTiles(Shared& shared)
      : SoftmaxTiles<width>(shared),
        weight(shared.take<float>(kTileColumns)),
        shift(shared.take<float>(kTileColumns)),
        seen(shared.take<int>(kTileColumns)) {}
  static constexpr size_t bytes() {
    return SoftmaxTiles<width>::bytes() + 3 * shared_bytes<float>(kTileColumns);
  }

  float *weight, *shift;  // [kTileColumns]
  int* seen;
};

// The positions from `first` on; whether there is one that counts.
template <int width>
__device__ __forceinline__ bool read_positions(const FeatureSumsParams& p, const FeatureItem& item,
                                               const SumTiles<width>& tiles, int first, int end) {
  const bool keys = p.inverses == nullptr;
  const int lane = static_cast<int>(threadIdx.x) % 32, i = first + lane;
  const bool token = i < end && item.token(i),
             seen = token || (i < end && keys && p.attention.options.count_padding);
  __syncthreads();  // the last step's are read until here
  if (threadIdx.x < kTileColumns) {
    tiles.columns.at[lane] = token ? i : -1;
    tiles.seen[lane] = seen ? 1 : 0;
    tiles.weight[lane] = !seen ? 0.0F : keys ? 1.0F : p.slopes[item.rows + i];
  }
  __syncthreads();
  return __any_sync(kAllLanes, seen) != 0;
}

template <int width>
struct Sums {
  float sum[width / 8][4] = {}, z[2] = {};
  float rows = 0, weights = 0;  // column sums of y: of column threadIdx.x; of w, in the last thread
  Peak peak[2] = {kNoPeak, kNoPeak};
};

// e of the logits of keys of softmax, each row's shift its largest so far.
template <int width>
__device__ __forceinline__ void shift_keys(const SumTiles<width>& tiles, int first,
                                           float (&e)[kTileColumns / 8][4], Sums<width>& sums) {
  Peak peak[2] = {kNoPeak, kNoPeak};
  for_each_column(e, [&](int n, int i, int, int j) {
    if (tiles.seen[j] != 0) peak[i / 2].take(e[n][i], first + j);
  });
  float old[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const Peak before = sums.peak[h];
    sums.peak[h].take(row_peak(peak[h]).value, row_peak(peak[h]).at);
    old[h] = before.value == -INFINITY ? 0.0F : expf(before.value - sums.peak[h].value);
    sums.z[h] *= old[h];
  }
  scale_fragments(sums.sum, old);
  for_each_column(e, [&](int n, int i, int, int j) {
    e[n][i] = expf(e[n][i] - tiles.shift[j] - sums.peak[i / 2].value);
  });
}

// e [features,positions] of a step, given x: 0 where there is no feature or no position.
template <int width>
__device__ __forceinline__ void sum_features(const FeatureSumsParams& p, const FeatureItem& item,
                                             const SumTiles<width>& tiles, int first,
                                             float (&e)[kTileColumns / 8][4], Sums<width>& sums) {
  const FeatureMap map = p.attention.options.map;
  const int depth = p.attention.depth;
  if (is_projected(map)) {
    multiply_add<true, kStepsAhead<width>, Factors::swapped>(
        warp_rows<width>(tiles.rows), transposed<width>(tiles.column_rows), width, e);
    if (map == FeatureMap::softmax && p.inverses == nullptr)
      shift_keys(tiles, first, e, sums);
    else
      for_each_column(e, [&](int n, int i, int, int j) {
        e[n][i] = map == FeatureMap::relu ? rectified(e[n][i]) : expf(e[n][i] - tiles.shift[j]);
      });
  }
  for_each_column(e, [&](int n, int i, int r, int j) {
    const int f = tiles.row_at[r];
    if (f < 0 || tiles.seen[j] == 0) {
      e[n][i] = 0;
    } else if (!is_projected(map)) {
      const int half = f < depth ? 0 : 1, at = tiles.columns.at[j];
      const float phase = map == FeatureMap::cosine ? __ldg(item.phases + 2 * at + half) : 1.0F;
      e[n][i] =
          plain_feature(map, tiles.column_rows[j * tile_stride(width) + f - half * depth], phase);
    }
    sums.z[i / 2] = fmaf(e[n][i], tiles.weight[j], sums.z[i / 2]);
  });
}

// norm ‖x‖² of each position and, of queries of softmax, its largest W x.
template <int width>
__device__ __forceinline__ void read_shifts(const FeatureSumsParams& p, const FeatureItem& item,
                                            const SumTiles<width>& tiles) {
  if (p.attention.options.map != FeatureMap::softmax) return;
  const float norm = squared_norm<width, kTileColumns>(tiles.column_rows);
  const int j = static_cast<int>(threadIdx.x) / 4, at = tiles.columns.at[j];
  if (threadIdx.x % 4 != 0) return;
  const float peak =
      p.inverses == nullptr || at < 0 ? 0.0F : p.attention.query_peaks[item.rows + at];
  tiles.shift[j] = p.attention.options.norm * norm + peak;
}

template <int width>
__device__ __forceinline__ void add_column_sums(const SumTiles<width>& tiles, Sums<width>& sums) {
  const int c = static_cast<int>(threadIdx.x);
  if (blockIdx.y != 0) return;
  if (c < width) {
#pragma unroll 8
    for (int j = 0; j < kTileColumns; ++j)
      sums.rows += tiles.column_values[j * tile_stride(width) + c];
  }
  if (c == kTileThreads - 1) {
#pragma unroll 8
    for (int j = 0; j < kTileColumns; ++j) sums.weights += tiles.weight[j];
  }
}

// Writes what the block summed up; the column sums where it has the first features.
template <int width>
__device__ __forceinline__ void store_partial(const FeatureSumsParams& p,
                                              const SumTiles<width>& tiles, int split,
                                              const FeatureItem& item, Sums<width>& sums) {
  const int f = p.attention.width, d = p.attention.depth, columns = d + 1;
  const int64_t part = static_cast<int64_t>(item.number) * p.attention.splits + split;
  float* const to = p.partial.sums + part * (f + 1) * columns;
  for_each_element(sums.sum, [&](int r, int c, float x) {
    const int row = tiles.row_at[r];
    if (row >= 0 && c < d) to[static_cast<int64_t>(row) * columns + c] = x;
  });
  for (float& z : sums.z) z = row_sum(z);
  for_each_row([&](int r, int h) {
    const int row = tiles.row_at[r];
    if (row < 0) return;
    to[static_cast<int64_t>(row) * columns + d] = sums.z[h];
    p.partial.peaks[part * f + row] = sums.peak[h].value;
    p.partial.positions[part * f + row] = sums.peak[h].at;
  });
  if (blockIdx.y != 0) return;
  float* const last = to + static_cast<int64_t>(f) * columns;
  if (static_cast<int>(threadIdx.x) < d) last[threadIdx.x] = sums.rows;
  if (threadIdx.x == kTileThreads - 1) last[d] = sums.weights;
}

template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) feature_sums(FeatureSumsParams p) {
  const LinearAttentionParams& a = p.attention;
  const FeatureItem item(a, static_cast<int>(blockIdx.z));
  const bool keys = p.inverses == nullptr;
  Shared shared = block_shared();
  const SumTiles<width> tiles(shared);
  const int r = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.y) * kTileRows + r,
            split = static_cast<int>(blockIdx.x),
            stretch =
                (a.length + a.splits * kTileColumns - 1) / (a.splits * kTileColumns) * kTileColumns,
            begin = split * stretch, end = begin + stretch < a.length ? begin + stretch : a.length;
  if (r < kTileRows) tiles.row_at[r] = row < a.width ? row : -1;
  __syncthreads();
  if (is_projected(a.options.map))
    load_rows<width, kTileRows>(matrix_rows(a.table, a.depth), a.depth, tiles.row_at, tiles.rows);
  const HeadRows<T> x(keys ? a.k : a.q, item.b, item.h),
      y(keys ? a.v : a.grad_out, item.b, item.h, 1.0F, keys ? nullptr : p.inverses + item.rows);
  Sums<width> sums;
  for (int first = begin; first < end; first += kTileColumns) {
    if (!read_positions(p, item, tiles, first, end)) continue;
    load_rows<width, kTileColumns>(x, a.depth, tiles.columns.at, tiles.column_rows);
    load_rows<width, kTileColumns>(y, a.depth, tiles.columns.at, tiles.column_values);
    __syncthreads();
    read_shifts(p, item, tiles);
    add_column_sums(tiles, sums);
    __syncthreads();
    float e[kTileColumns / 8][4] = {};
    sum_features(p, item, tiles, first, e, sums);
    tiles.template mix<kSplit<T>>(e, tiles.column_values, sums.sum);
  }
  store_partial(p, tiles, split, item, sums);
}

// The largest of the peaks of heads [first, first + count): whole block.
__device__ __forceinline__ KeyPeak largest_peak(const FeatureSumsParams& p, int first, int count,
                                                KeyPeak* found) {
  const int f = p.attention.width, splits = p.attention.splits;
  KeyPeak most = {-INFINITY, first, 0, 0};
  const auto take = [&](const KeyPeak& other) {
    const bool before = other.item != most.item           ? other.item < most.item
                        : other.position != most.position ? other.position < most.position
                                                          : other.feature < most.feature;
    if (other.value > most.value || (other.value == most.value && before)) most = other;
  };
  const int64_t begin = static_cast<int64_t>(first) * splits * f,
                end = begin + static_cast<int64_t>(count) * splits * f;
  for (int64_t i = begin + threadIdx.x; i < end; i += kCombineThreads) {
    take({p.partial.peaks[i], static_cast<int32_t>(i / f / splits), p.partial.positions[i],
          static_cast<int32_t>(i % f)});
  }
  found[threadIdx.x] = most;
  __syncthreads();
  for (int i = 0; i < kCombineThreads; ++i) take(found[i]);
  if (most.value == -INFINITY) most.value = 0;  // no position is seen
  return most;
}

// Adds up the stretches; the offset of all features enters by the sums of the rows themselves.
__global__ void __launch_bounds__(kCombineThreads) combine_sums(FeatureSumsParams p) {
  const LinearAttentionParams& a = p.attention;
  const int item = static_cast<int>(blockIdx.y), columns = a.depth + 1;
  const bool shifted = p.inverses == nullptr && a.options.map == FeatureMap::softmax;
  Shared shared = block_shared();
  KeyPeak* const found = shared.take<KeyPeak>(kCombineThreads);
  KeyPeak peak = {};
  if (shifted) {
    peak = a.options.batch_max ? largest_peak(p, 0, a.batch * a.heads, found)
                               : largest_peak(p, item, 1, found);
    if (blockIdx.x == 0 && threadIdx.x == 0) a.key_peaks[item] = peak;
  }
  const int i = static_cast<int>(blockIdx.x * kCombineThreads + threadIdx.x), row = i / columns,
            column = i % columns;
  if (row >= a.width) return;
  float sum = 0, ones = 0;
  for (int split = 0; split < a.splits; ++split) {
    const int64_t part = static_cast<int64_t>(item) * a.splits + split;
    const float* from = p.partial.sums + part * (a.width + 1) * columns;
    const float factor = shifted ? expf(p.partial.peaks[part * a.width + row] - peak.value) : 1.0F;
    sum = fmaf(from[i], factor, sum);
    ones += from[static_cast<int64_t>(a.width) * columns + column];
  }
  sum = fmaf(a.options.offset, ones, sum);
  p.sums[(static_cast<int64_t>(item) * a.width) * columns + i] =
      column < a.depth ? sum * a.options.share : sum;
}

}  // namespace

PartialSums partial_sums_in(const LinearAttentionParams& p, float* scratch) {
  const int64_t parts = int64_t{p.batch} * p.heads * p.splits;
  float* const peaks = scratch + parts * (int64_t{p.width} + 1) * (p.depth + 1);
  return {scratch, peaks, reinterpret_cast<int32_t*>(peaks + parts * p.width)};
}

void launch_feature_sums(const FeatureSumsParams& p, Stream stream) {
  const LinearAttentionParams& a = p.attention;
  const int items = a.batch * a.heads;
  with_storage_and_width(a.storage, a.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    launch(feature_sums<T, kWidth>, grid_of(a.splits, ceil_div(a.width, kTileRows), items),
           Dim3{kTileThreads}, SumTiles<kWidth>::bytes(), stream, p);
  });
  launch(combine_sums, grid_of(ceil_div(a.width * (a.depth + 1), kCombineThreads), items),
         Dim3{kCombineThreads}, shared_bytes<KeyPeak>(kCombineThreads), stream, p);
}

}  // namespace lra::ops::cuda
