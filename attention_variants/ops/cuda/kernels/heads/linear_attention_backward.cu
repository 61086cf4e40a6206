// Linear attention and FAVOR+, backward (linear_attention.cu): features are computed anew.
//
// With g_i the gradient of result i divided by its denominator D_i, and -(g_i·out_i) that of D_i:
// the gradients of φ(q_i) are S g_i and z times the latter, those of S and z are sums over queries
// as S and z are over keys, and from these come the gradients of φ(k_j) and v_j.
//
// Traffic: q, k, v, out and its gradient once or, for the sums, once a tile of 64 features; W and
// the sums once a tile of 64 positions. Work: a block 64 positions of a head, features in steps of
// 32; the sums by feature_sums.cu. The gradient of the keys' largest W k, of softmax, is the sum of
// what blocks leave in scratch, and goes to one row by a launch of its own.
#include "attention_variants/ops/cuda/kernels/heads/feature_sums.h"
#include "attention_variants/ops/cuda/kernels/heads/feature_tiles.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {
namespace {

constexpr int kPeakThreads = 32;

__device__ __host__ constexpr int blocks_of(int length) { return ceil_div(length, kTileRows); }

// Arrays of the backward pass in scratch.
struct BackwardParams {
  LinearAttentionParams attention;
  float* sums;               // [B,H,f,d+1], gradients
  float *inverses, *slopes;  // [B,H,N]: 1 / D, and the gradient of D; 0 of padding
  float* peaks;              // [B,H,blocks]: minus the gradient of the keys' largest W k
};

// Beside FeatureTiles: rows of gradients of results, or of values; the gradient of x of maps
// without W; of each row the sum of its exponents' gradients.
template <int width>
struct BackwardTiles : FeatureTiles<width> {
  __device__ explicit BackwardTiles(Shared& shared)
      : FeatureTiles<width>(shared),
        row_values(shared.take<float>(kTileRows * tile_stride(width))),
        plain(shared.take<float>(kTileRows * tile_stride(width))),
        total(shared.take<float>(kTileRows)) {}
  static constexpr size_t bytes() {
    return FeatureTiles<width>::bytes() + shared_bytes<float>(2 * kTileRows * tile_stride(width)) +
           shared_bytes<float>(kTileRows);
  }

  float *row_values, *plain, *total;
};

// Of queries: 1 / D and the gradient of D, to scratch and `weight`, and rows of gradients times 1 /
// D; shift is norm ‖q‖² and the row's largest W q.
template <class T, int width>
__device__ __forceinline__ void read_queries(const BackwardParams& p, const FeatureItem& item,
                                             const BackwardTiles<width>& tiles) {
  const LinearAttentionParams& a = p.attention;
  load_rows<width, kTileRows>(HeadRows<T>(a.q, item.b, item.h), a.depth, tiles.row_at, tiles.rows);
  const int r = static_cast<int>(threadIdx.x) / 2, at = tiles.row_at[r],
            i = static_cast<int>(blockIdx.x) * kTileRows + r;
  const bool first = threadIdx.x % 2 == 0;
  const HeadRows<T> out(as_const(a.out), item.b, item.h), grad(a.grad_out, item.b, item.h);
  float along = 0;
  for (int c = first ? 0 : 1; at >= 0 && c < a.depth; c += 2)
    along = fmaf(out(at, c), grad(at, c), along);
  along += __shfl_xor_sync(kAllLanes, along, 1);
  __syncthreads();
  const float norm = squared_norm<width, kTileRows>(tiles.rows);
  if (first) {
    const Divisor divisor =
        at < 0 ? Divisor{1.0F, 0.0F} : divisor_of(a.options, a.denominators[item.rows + at]);
    const float inverse = at < 0 ? 0.0F : 1 / divisor.value;
    tiles.weight[r] = -along * inverse * divisor.slope;
    tiles.shift[r] = a.options.norm * norm;
    if (at >= 0 && a.options.map == FeatureMap::softmax)
      tiles.shift[r] += a.query_peaks[item.rows + at];
    if (i < a.length) {
      p.inverses[item.rows + i] = inverse;
      p.slopes[item.rows + i] = tiles.weight[r];
    }
  }
  __syncthreads();
  load_rows<width, kTileRows>(HeadRows<T>(a.grad_out, item.b, item.h, 1.0F, p.inverses + item.rows),
                              a.depth, tiles.row_at, tiles.row_values);
}

// Of keys: rows of values, weight 1 where they count; shift is norm ‖k‖² and the head's largest W
// k.
template <class T, int width>
__device__ __forceinline__ void read_keys(const BackwardParams& p, const FeatureItem& item,
                                          const BackwardTiles<width>& tiles) {
  const LinearAttentionParams& a = p.attention;
  load_rows<width, kTileRows>(HeadRows<T>(a.k, item.b, item.h), a.depth, tiles.row_at, tiles.rows);
  load_rows<width, kTileRows>(HeadRows<T>(a.v, item.b, item.h), a.depth, tiles.row_at,
                              tiles.row_values);
  __syncthreads();
  const float norm = squared_norm<width, kTileRows>(tiles.rows);
  if (threadIdx.x % 2 != 0) return;
  const int r = static_cast<int>(threadIdx.x) / 2, i = static_cast<int>(blockIdx.x) * kTileRows + r;
  const bool counts = tiles.row_at[r] >= 0 || (a.options.count_padding && i < a.length);
  tiles.weight[r] = counts ? 1.0F : 0.0F;
  tiles.shift[r] = a.options.norm * norm;
  if (a.options.map == FeatureMap::softmax) tiles.shift[r] += a.key_peaks[item.number].value;
}

template <int width>
struct Gradients {
  float x[width / 8][4] = {}, v[width / 8][4] = {}, total[2] = {};
};

// e of a step, 0 where there is no feature or no position that counts.
template <int width>
__device__ __forceinline__ void step_features(const LinearAttentionParams& p,
                                              const FeatureItem& item,
                                              const BackwardTiles<width>& tiles,
                                              const FeatureStep& step, bool keys,
                                              float (&e)[kTileColumns / 8][4]) {
  tiles.features(p, item, step, e);
  for_each_column(e, [&](int n, int i, int r, int j) {
    if (p.options.map == FeatureMap::softmax) e[n][i] = expf(e[n][i] - tiles.shift[r]);
    if (p.options.map == FeatureMap::relu) e[n][i] = rectified(e[n][i]);
    const bool there = keys ? tiles.weight[r] != 0 : tiles.row_at[r] >= 0;
    if (!there || tiles.columns.at[j] < 0) e[n][i] = 0;
  });
}

// The derivative by W x, or by x, of a feature at row r and column j.
template <int width>
__device__ __forceinline__ float slope_of(const LinearAttentionParams& p, const FeatureItem& item,
                                          const BackwardTiles<width>& tiles,
                                          const FeatureStep& step, int r, int j, float e) {
  if (p.options.map == FeatureMap::softmax) return e;
  if (p.options.map == FeatureMap::relu) return e > 0 ? 1.0F : 0.0F;
  if (tiles.columns.at[j] < 0 || tiles.row_at[r] < 0) return 0;
  const bool above = tiles.x(step, r, j) > 0;
  if (p.options.map == FeatureMap::elu) return above ? 1.0F : e;
  return above ? tiles.phase(p, item, step, r) : 0.0F;
}

// The gradients that a launch computes. Those of keys and values of wide heads have no room in
// registers together.
enum class Part { queries, keys, values, keys_and_values };

// Adds a step's features to the gradients.
template <class T, int width, Part part>
__device__ __forceinline__ void add_step(const LinearAttentionParams& p, const FeatureItem& item,
                                         const BackwardTiles<width>& tiles, const FeatureStep& step,
                                         Gradients<width>& grad) {
  float e[kTileColumns / 8][4] = {};
  step_features(p, item, tiles, step, part != Part::queries, e);
  if (part == Part::values || part == Part::keys_and_values)
    tiles.template mix<kSplit<T>>(e, tiles.column_values, grad.v);
  if (part == Part::values) return;
  float of_e[kTileColumns / 8][4] = {};
  multiply_add<kSplit<T>, kStepsAhead<width>>(warp_rows<width>(tiles.row_values),
                                              transposed<width>(tiles.column_values), width, of_e);
  for_each_column(e, [&](int n, int i, int r, int j) {
    e[n][i] = slope_of(p, item, tiles, step, r, j, e[n][i]) *
              fmaf(tiles.weight[r], tiles.z[j], of_e[n][i]);
    grad.total[i / 2] += e[n][i];
    if (!is_projected(p.options.map) && tiles.columns.at[j] >= 0)
      tiles.plain[r * tile_stride(width) + step.first + j] += e[n][i];
  });
  if (is_projected(p.options.map)) tiles.template mix<true>(e, tiles.column_rows, grad.x);
}

// What the gradient of the rows of x has beside that by W x: of ‖x‖² and, of queries, of their
// largest W x.
template <int width>
__device__ __forceinline__ void finish(const LinearAttentionParams& p, const FeatureItem& item,
                                       const BackwardTiles<width>& tiles, bool keys,
                                       Gradients<width>& grad) {
  const bool softmax = p.options.map == FeatureMap::softmax;
  for (float& total : grad.total) total = row_sum(total);
  for_each_row([&](int r, int h) { tiles.total[r] = grad.total[h]; });
  for_each_column(grad.x, [&](int n, int i, int r, int c) {
    const int at = tiles.row_at[r];
    if (at < 0 || c >= p.depth) return;
    if (!is_projected(p.options.map)) grad.x[n][i] = tiles.plain[r * tile_stride(width) + c];
    if (!softmax) return;
    const float total = grad.total[i / 2];
    grad.x[n][i] -= 2 * p.options.norm * total * tiles.rows[r * tile_stride(width) + c];
    if (keys || !p.options.max_attached) return;
    const int f = p.query_features[item.rows + at];
    grad.x[n][i] -= total * __ldg(p.table + static_cast<int64_t>(f) * p.depth + c);
  });
}

// Writes rows, those of padding zero.
template <class T, int width>
__device__ __forceinline__ void store(const LinearAttentionParams& p, const FeatureItem& item,
                                      const BackwardTiles<width>& tiles,
                                      const float (&from)[width / 8][4], const MutableHeads& to) {
  T* const head = head_of<T>(to, item.b, item.h);
  for_each_element(from, [&](int r, int c, float x) {
    const int at = static_cast<int>(blockIdx.x) * kTileRows + r;
    if (at < p.length && c < p.depth)
      head[at * to.row + c] = from_float<T>(tiles.row_at[r] >= 0 ? x : 0.0F);
  });
}

template <class T, int width, Part part>
__global__ void __launch_bounds__(kTileThreads, 1) linear_backward(BackwardParams p) {
  constexpr bool keys = part != Part::queries;
  const LinearAttentionParams& a = p.attention;
  const FeatureItem item(a, static_cast<int>(blockIdx.y));
  Shared shared = block_shared();
  const BackwardTiles<width> tiles(shared);
  tiles.start(a, item, static_cast<int>(blockIdx.x) * kTileRows);
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * tile_stride(width); i += kTileThreads)
    tiles.plain[i] = 0;
  if (keys)
    read_keys<T>(p, item, tiles);
  else
    read_queries<T>(p, item, tiles);
  Gradients<width> grad;
  for_each_step(a, [&](const FeatureStep& step) {
    tiles.read_step(a, step, keys ? p.sums + item.sums : a.sums + item.sums);
    add_step<T, width, part>(a, item, tiles, step, grad);
  });
  __syncthreads();
  if (part == Part::values || part == Part::keys_and_values) {
    for_each_column(grad.v, [&](int n, int i, int, int c) {
      grad.v[n][i] = fmaf(a.options.offset, tiles.ones[c], grad.v[n][i]);
    });
    store<T>(a, item, tiles, grad.v, a.grad_v);
  }
  if (part == Part::values) return;
  finish(a, item, tiles, keys, grad);
  store<T>(a, item, tiles, grad.x, keys ? a.grad_k : a.grad_q);
  __syncthreads();
  if (!keys || threadIdx.x != 0) return;
  float sum = 0;
  for (int r = 0; r < kTileRows; ++r) sum += tiles.total[r];
  p.peaks[static_cast<int64_t>(item.number) * blocks_of(a.length) + blockIdx.x] = sum;
}

// Takes the gradient of the keys' largest W k to the position where it stands: one warp a head, or
// for all of them.
template <class T>
__global__ void __launch_bounds__(kPeakThreads) key_peak_backward(BackwardParams p) {
  const LinearAttentionParams& a = p.attention;
  const KeyPeak peak = a.key_peaks[blockIdx.x];
  const int lane = static_cast<int>(threadIdx.x),
            blocks = blocks_of(a.length) * (a.options.batch_max ? a.batch * a.heads : 1);
  const float* from = p.peaks + static_cast<int64_t>(blockIdx.x) * blocks_of(a.length);
  float sum = 0;
  for (int i = lane; i < blocks; i += kPeakThreads) sum += from[i];
  sum = warp_sum(sum);
  const FeatureItem item(a, peak.item);
  if (!item.token(peak.position)) return;
  T* const to = head_of<T>(a.grad_k, item.b, item.h) + peak.position * a.grad_k.row;
  for (int c = lane; c < a.depth; c += kPeakThreads) {
    const float w = a.table[static_cast<int64_t>(peak.feature) * a.depth + c];
    to[c] = from_float<T>(to_float(to[c]) - sum * w);
  }
}

BackwardParams backward_params(const LinearAttentionParams& p) {
  const int64_t items = int64_t{p.batch} * p.heads, rows = items * p.length;
  float* const sums = p.scratch + partial_sums_floats(p);
  float* const inverses = sums + items * p.width * (p.depth + 1);
  return {p, sums, inverses, inverses + rows, inverses + 2 * rows};
}

}  // namespace

void launch_linear_attention_backward(const LinearAttentionParams& p, Stream stream) {
  const BackwardParams params = backward_params(p);
  const int items = p.batch * p.heads;
  const Dim3 grid = grid_of(blocks_of(p.length), items), block{kTileThreads};
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    constexpr size_t kBytes = BackwardTiles<kWidth>::bytes();
    launch(linear_backward<T, kWidth, Part::queries>, grid, block, kBytes, stream, params);
    launch_feature_sums(
        {p, params.inverses, params.slopes, partial_sums_in(p, p.scratch), params.sums}, stream);
    if constexpr (kWidth < 128) {
      launch(linear_backward<T, kWidth, Part::keys_and_values>, grid, block, kBytes, stream,
             params);
    } else {
      launch(linear_backward<T, kWidth, Part::keys>, grid, block, kBytes, stream, params);
      launch(linear_backward<T, kWidth, Part::values>, grid, block, kBytes, stream, params);
    }
    if (p.options.map != FeatureMap::softmax || !p.options.max_attached) return;
    launch(key_peak_backward<T>, grid_of(p.options.batch_max ? 1 : items, 1), Dim3{kPeakThreads}, 0,
           stream, params);
  });
}

}  // namespace lra::ops::cuda
