// The features of linear attention in products of tiles: of 64 positions by 32 features, or of 64
// features by 32 positions. What is called e is a feature without its offset.
#pragma once

#include "attention_variants/ops/cuda/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cuda/kernels/heads/softmax_tiles.h"

namespace lra::ops::cuda {

static_assert(kFeatureRows == kTileRows);

__device__ __forceinline__ bool is_projected(FeatureMap map) {
  return map == FeatureMap::relu || map == FeatureMap::softmax;
}

/// The sample and head of a block, and where its rows begin in [B,H,N] and [B,H,f,d+1].
struct FeatureItem {
  int number, b, h;
  const bool* mask;     // [N] or null
  const float* phases;  // [N,2], of cosine
  int64_t rows, sums;

  __device__ FeatureItem(const LinearAttentionParams& p, int item)
      : number(item),
        b(item / p.heads),
        h(item % p.heads),
        mask(p.mask == nullptr ? nullptr : p.mask + static_cast<int64_t>(b) * p.length),
        phases(p.table + static_cast<int64_t>(b) * 2 * p.length),
        rows(static_cast<int64_t>(item) * p.length),
        sums(static_cast<int64_t>(item) * p.width * (p.depth + 1)) {}

  __device__ bool token(int at) const { return mask == nullptr || mask[at]; }
};

/// Rows of a float32 matrix, for load_rows().
__device__ __forceinline__ HeadRows<float> matrix_rows(const float* data, int stride) {
  HeadRows<float> rows;
  rows.data = data;
  rows.row = stride;
  rows.factor = 1;
  rows.factors = nullptr;
  return rows;
}

/// The larger of x and 0, and NaN of NaN, which fmaxf() and fminf() would hide.
__device__ __forceinline__ float rectified(float x) { return x < 0.0F ? 0.0F : x; }

/// e of the maps without W; x is one element of the position's row.
__device__ __forceinline__ float plain_feature(FeatureMap map, float x, float phase) {
  if (map == FeatureMap::cosine) return rectified(x) * phase;
  // elu(x) + 1 without its loss of digits below 0.
  return expf(x > 0.0F ? 0.0F : x) + rectified(x);
}

/// The largest number of a row and where it stands; the first of equal ones.
struct Peak {
  float value;
  int at;

  __device__ __forceinline__ void take(float other, int other_at) {
    if (other > value || (other == value && other_at < at)) {
      value = other;
      at = other_at;
    }
  }
};
inline constexpr Peak kNoPeak = {-INFINITY, 0};

/// That of the lanes that share a row.
__device__ __forceinline__ Peak row_peak(Peak peak) {
  for (int step = 1; step <= 2; step *= 2) {
    const float value = __shfl_xor_sync(kAllLanes, peak.value, step);
    peak.take(value, __shfl_xor_sync(kAllLanes, peak.at, step));
  }
  return peak;
}

/// Of the four threads of each of kTileColumns rows, or two of kTileRows: the row's sum of squares.
template <int width, int rows>
__device__ __forceinline__ float squared_norm(const float* tile) {
  constexpr int kShare = kTileThreads / rows;
  const int r = static_cast<int>(threadIdx.x) / kShare;
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x) % kShare; c < width; c += kShare) {
    const float x = tile[r * tile_stride(width) + c];
    sum = fmaf(x, x, sum);
  }
  for (int step = 1; step < kShare; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  return sum;
}

/// The features that a step has as columns. Of cosine each half of them in steps of its own, so
/// that a step has an element of x once.
struct FeatureStep {
  int first, half;

  __device__ static int count(const LinearAttentionParams& p) {
    return is_projected(p.options.map) ? p.width : p.depth;
  }
  __device__ static int halves(const LinearAttentionParams& p) {
    return p.options.map == FeatureMap::cosine ? 2 : 1;
  }
  /// The number of column j, -1 for none.
  __device__ int feature(const LinearAttentionParams& p, int j) const {
    return first + j < count(p) ? half * p.depth + first + j : -1;
  }
};

/// Calls body(step) of all features.
template <class Body>
__device__ __forceinline__ void for_each_step(const LinearAttentionParams& p, const Body& body) {
  for (int half = 0; half < FeatureStep::halves(p); ++half) {
    for (int first = 0; first < FeatureStep::count(p); first += kTileColumns)
      body(FeatureStep{first, half});
  }
}

/// Tiles of 64 positions, and of the sums and rows of W of 32 features.
template <int width>
struct FeatureTiles : SoftmaxTiles<width> {
  // SoftmaxTiles: row_at, columns.at: positions, features; rows, column_rows, column_values: x, W,
  // and the features' sums.
  __device__ explicit FeatureTiles(Shared& shared)
      : SoftmaxTiles<width>(shared),
        z(shared.take<float>(kTileColumns)),
        shift(shared.take<float>(kTileRows)),
        weight(shared.take<float>(kTileRows)),
        ones(shared.take<float>(width + 1)) {}

  static constexpr size_t bytes() {
    return SoftmaxTiles<width>::bytes() + shared_bytes<float>(kTileColumns) +
           2 * shared_bytes<float>(kTileRows) + shared_bytes<float>(width + 1);
  }

  /// Reads which of 64 positions from `begin` on are tokens.
  __device__ void start(const LinearAttentionParams& p, const FeatureItem& item, int begin) const {
    const int r = static_cast<int>(threadIdx.x), at = begin + r;
    if (r < kTileRows) this->row_at[r] = at < p.length && item.token(at) ? at : -1;
    for (int c = r; c <= width; c += kTileThreads) ones[c] = 0;
    __syncthreads();
  }

  /// Reads W and sums [f,d+1], the last of which is z.
  __device__ void read_step(const LinearAttentionParams& p, const FeatureStep& step,
                            const float* sums) const {
    const int j = static_cast<int>(threadIdx.x);
    __syncthreads();  // the last step's are read until here
    if (j < kTileColumns) {
      const int f = step.feature(p, j);
      this->columns.at[j] = f;
      z[j] = f < 0 ? 0.0F : sums[static_cast<int64_t>(f) * (p.depth + 1) + p.depth];
    }
    __syncthreads();
    const int* at = this->columns.at;
    if (is_projected(p.options.map))
      load_rows<width, kTileColumns>(matrix_rows(p.table, p.depth), p.depth, at, this->column_rows);
    load_rows<width, kTileColumns>(matrix_rows(sums, p.depth + 1), p.depth, at,
                                   this->column_values);
    __syncthreads();
    add_ones();
  }

  /// W x of the warp's rows, or e of maps without W; 0 of no feature.
  __device__ __forceinline__ void features(const LinearAttentionParams& p, const FeatureItem& item,
                                           const FeatureStep& step,
                                           float (&e)[kTileColumns / 8][4]) const {
    if (is_projected(p.options.map)) {
      // In float32 whatever x is: an exponent of 80 in bfloat16 is off by a quarter.
      multiply_add<true, kStepsAhead<width>>(warp_rows<width>(this->rows),
                                             transposed<width>(this->column_rows), width, e);
      return;
    }
    for_each_column(e, [&](int n, int i, int r, int j) {
      if (this->columns.at[j] < 0 || this->row_at[r] < 0) return;
      e[n][i] = plain_feature(p.options.map, x(step, r, j), phase(p, item, step, r));
    });
  }
  __device__ __forceinline__ float x(const FeatureStep& step, int r, int j) const {
    return this->rows[r * tile_stride(width) + step.first + j];
  }
  __device__ __forceinline__ float phase(const LinearAttentionParams& p, const FeatureItem& item,
                                         const FeatureStep& step, int r) const {
    const bool cosine = p.options.map == FeatureMap::cosine;
    return cosine ? __ldg(item.phases + 2 * this->row_at[r] + step.half) : 1.0F;
  }

  float *z, *shift, *weight;  // [kTileColumns], [kTileRows] twice
  float* ones;                // [width+1]: the sums of all features, then of z

 private:
  __device__ void add_ones() const {
    for (int c = static_cast<int>(threadIdx.x); c <= width; c += kTileThreads) {
      const float* from = c < width ? this->column_values + c : z;
      const int stride = c < width ? tile_stride(width) : 1;
      float sum = ones[c];
#pragma unroll 8
      for (int r = 0; r < kTileColumns; ++r) sum += from[r * stride];
      ones[c] = sum;
    }
  }
};

/// What a result is divided by, given its denominator, and the derivative of that.
struct Divisor {
  float value, slope;
};
__device__ __forceinline__ Divisor divisor_of(const FeatureOptions& options, float denominator) {
  if (!options.normalise) return {1.0F, 0.0F};
  const bool open = denominator > options.denominator_min;
  return {open ? denominator : options.denominator_min, open ? 1.0F : 0.0F};
}

}  // namespace lra::ops::cuda
