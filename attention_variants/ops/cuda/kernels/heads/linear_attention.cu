// Linear attention and FAVOR+, forward: φ(q_i) S divided by φ(q_i) z, where S = Σ_j φ(k_j) v_jᵀ
// and z = Σ_j φ(k_j) (Katharopoulos et al., ICML 2020; Choromanski et al., ICLR 2021;
// ops/linear_attention.h). q, k, v, out [B,H,N,d], sums [B,H,f,d+1].
//
// Traffic: k and v once a tile of 64 features, q and out once, W and the sums once a tile of 64
// queries; features stay in registers and shared memory. Work: feature_sums.cu, then a block 64
// queries of a head, which takes the features in steps of 32. Of softmax a query's shift is its
// largest W q so far, as in a softmax over W's rows.
#include "attention_variants/ops/cuda/kernels/heads/linear_attention.h"

#include "attention_variants/ops/cuda/kernels/heads/feature_sums.h"
#include "attention_variants/ops/cuda/kernels/heads/feature_tiles.h"

namespace lra::ops::cuda {
namespace {

template <int width>
struct Readout {
  float out[width / 8][4] = {}, denominator[2] = {};
  Peak peak[2] = {kNoPeak, kNoPeak};
};

// W q become exp(W q - the row's largest so far).
template <int width>
__device__ __forceinline__ void shift_queries(const FeatureTiles<width>& tiles, int first,
                                              float (&e)[kTileColumns / 8][4],
                                              Readout<width>& read) {
  Peak peak[2] = {kNoPeak, kNoPeak};
  for_each_column(e, [&](int n, int i, int, int j) {
    if (tiles.columns.at[j] >= 0) peak[i / 2].take(e[n][i], first + j);
  });
  float old[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const Peak before = read.peak[h], found = row_peak(peak[h]);
    read.peak[h].take(found.value, found.at);
    old[h] = before.value == -INFINITY ? 0.0F : expf(before.value - read.peak[h].value);
    read.denominator[h] *= old[h];
  }
  scale_fragments(read.out, old);
  for_each_column(e, [&](int n, int i, int, int j) {
    e[n][i] = tiles.columns.at[j] >= 0 ? expf(e[n][i] - read.peak[i / 2].value) : 0.0F;
  });
}

// The numerator and the denominator become a result, of which the rows' denominators are kept.
template <int width>
__device__ __forceinline__ void finish(const LinearAttentionParams& p,
                                       const FeatureTiles<width>& tiles, const FeatureItem& item,
                                       Readout<width>& read) {
  const FeatureOptions& options = p.options;
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  float denominator[2], inverse[2], norm[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    norm[h] = options.map == FeatureMap::softmax
                  ? expf(-options.norm * tiles.shift[first + fragment_row(2 * h)])
                  : 1.0F;
    denominator[h] = fmaf(row_sum(read.denominator[h]), norm[h],
                          fmaf(options.offset, tiles.ones[width], options.epsilon));
    if (options.guard != 0 && fabsf(denominator[h]) <= options.guard)
      denominator[h] += 2 * options.guard;
    inverse[h] = 1 / divisor_of(options, denominator[h]).value;
  }
  scale_fragments(read.out, norm);
  for_each_column(read.out, [&](int n, int i, int, int c) {
    read.out[n][i] = fmaf(options.offset, tiles.ones[c], read.out[n][i]) * inverse[i / 2];
  });
  for_each_row([&](int r, int h) {
    const int at = tiles.row_at[r];
    if (at < 0) return;
    p.denominators[item.rows + at] = denominator[h];
    if (options.map != FeatureMap::softmax) return;
    p.query_peaks[item.rows + at] = read.peak[h].value;
    p.query_features[item.rows + at] = read.peak[h].at;
  });
}

template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) linear_readout(LinearAttentionParams p) {
  const FeatureItem item(p, static_cast<int>(blockIdx.y));
  Shared shared = block_shared();
  const FeatureTiles<width> tiles(shared);
  const int begin = static_cast<int>(blockIdx.x) * kTileRows;
  tiles.start(p, item, begin);
  load_rows<width, kTileRows>(HeadRows<T>(p.q, item.b, item.h), p.depth, tiles.row_at, tiles.rows);
  __syncthreads();
  const float norm = squared_norm<width, kTileRows>(tiles.rows);
  if (threadIdx.x % 2 == 0) tiles.shift[threadIdx.x / 2] = norm;
  Readout<width> read;
  for_each_step(p, [&](const FeatureStep& step) {
    tiles.read_step(p, step, p.sums + item.sums);
    float e[kTileColumns / 8][4] = {};
    tiles.features(p, item, step, e);
    if (p.options.map == FeatureMap::softmax) shift_queries(tiles, step.first, e, read);
    for_each_column(e, [&](int n, int i, int, int j) {
      if (p.options.map == FeatureMap::relu) e[n][i] = rectified(e[n][i]);
      read.denominator[i / 2] = fmaf(e[n][i], tiles.z[j], read.denominator[i / 2]);
    });
    tiles.template mix<kSplit<T>>(e, tiles.column_values, read.out);
  });
  __syncthreads();
  finish(p, tiles, item, read);
  T* const out = head_of<T>(p.out, item.b, item.h);
  for_each_element(read.out, [&](int r, int c, float x) {
    const int at = begin + r;
    if (at >= p.length || c >= p.depth) return;
    out[at * p.out.row + c] = from_float<T>(tiles.row_at[r] >= 0 ? x : 0.0F);
  });
}

}  // namespace

void launch_linear_attention_forward(const LinearAttentionParams& p, Stream stream) {
  launch_feature_sums({p, nullptr, nullptr, partial_sums_in(p, p.scratch), p.sums}, stream);
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    launch(linear_readout<T, kWidth>, grid_of(ceil_div(p.length, kTileRows), p.batch * p.heads),
           Dim3{kTileThreads}, FeatureTiles<kWidth>::bytes(), stream, p);
  });
}

}  // namespace lra::ops::cuda
