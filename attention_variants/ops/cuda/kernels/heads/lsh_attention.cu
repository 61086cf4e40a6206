// Attention within the chunks of hashed and sorted tokens: every chunk of a round sees itself, the
// `before` chunks before it and the `after` chunks behind it, cyclically over all rounds; a token
// is one softmax over all it sees in any round (Kitaev et al., ICLR 2020; ops/lsh_attention.h).
//
// Traffic: a block gathers up to 64 tokens of a chunk once and the window's (before + 1 + after)
// chunks in steps of 32; a round's results [B,H,R,N,d] go to scratch in float32 and are summed in
// the order of rounds by a second launch, a warp a token. Backward the same, for the gradients of
// tokens as queries and as keys. Work: a block 64 tokens of a chunk, round, head and sample.
#include "attention_variants/ops/cuda/kernels/heads/lsh_attention.h"

#include "attention_variants/ops/cuda/kernels/heads/lsh_sort.h"
#include "attention_variants/ops/cuda/kernels/heads/softmax_backward.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {
namespace {

constexpr int kSumThreads = 128, kSumRows = kSumThreads / 32;

__device__ __host__ constexpr int parts_of(int chunk) { return ceil_div(chunk, kTileRows); }

// Rows are tokens of a chunk. Columns are those of the chunks that it sees, or that see it.
template <bool keys_are_rows>
struct ChunkPairs {
  static constexpr bool kSelf = true;

  __device__ explicit ChunkPairs(const LshParams& p)
      : order(p.order + static_cast<int64_t>(blockIdx.y) * p.rounds * p.chunks * p.chunk),
        chunks(p.rounds * p.chunks),
        size(p.chunk),
        own(static_cast<int>(blockIdx.x) / parts_of(p.chunk)),
        first_row(static_cast<int>(blockIdx.x) % parts_of(p.chunk) * kTileRows),
        before(keys_are_rows ? p.after : p.before),
        window(p.before + 1 + p.after),
        length(p.length) {}

  __device__ void read_rows(int* at) const {
    const int r = static_cast<int>(threadIdx.x), i = first_row + r;
    if (r < kTileRows) at[r] = i < size ? order[own * size + i] : -1;
  }
  __device__ int columns() const { return window * size; }
  __device__ Column column(int j) const {
    // Fewer chunks than a chunk sees: some are seen more than once.
    const int chunk = (own + j / size - before % chunks + chunks) % chunks;
    const int at = order[chunk * size + j % size];
    return at < 0 ? kNoColumn : Column{at, 0, length};
  }

  const int32_t* order;
  int chunks, size, own, first_row, before, window, length;
};

// Numbers [N] or [N,d] of the block's head and its round, of arrays [B,H,R,N] or [B,H,R,N,d].
struct RoundOffsets {
  int64_t rows;

  __device__ RoundOffsets(const LshParams& p, int own)
      : rows((static_cast<int64_t>(blockIdx.y) * p.rounds + own / p.chunks) * p.length) {}
};

// What the forward pass has in scratch: results that are not divided yet, tops and sums.
struct ForwardScratch {
  float *out, *top, *sum;

  __device__ explicit ForwardScratch(const LshParams& p) {
    const int64_t rows = static_cast<int64_t>(p.batch) * p.heads * p.rounds * p.length;
    out = p.scratch;
    top = out + rows * p.depth;
    sum = top + rows;
  }
};

struct BackwardScratch {
  float *q, *k, *v, *along;

  __device__ explicit BackwardScratch(const LshParams& p) {
    const int64_t count = static_cast<int64_t>(p.batch) * p.heads * p.rounds * p.length * p.depth;
    q = p.scratch;
    k = q + count;
    v = k + count;
    along = v + count;
  }
};

// Heads of the block's sample and head, as queries or values, and as keys.
template <class T>
__device__ __forceinline__ HeadRows<T> rows_of(const LshParams& p, const Heads& x) {
  const int item = static_cast<int>(blockIdx.y);
  return HeadRows<T>(x, item / p.heads, item % p.heads);
}
template <class T>
__device__ __forceinline__ HeadRows<T> keys_of(const LshParams& p) {
  const int item = static_cast<int>(blockIdx.y);
  return HeadRows<T>(p.x, item / p.heads, item % p.heads, 1.0F,
                     p.factors + static_cast<int64_t>(item) * p.length);
}

// Writes fragments to the positions of their rows in scratch [N,d].
template <int width, int tiles>
__device__ __forceinline__ void store_rows(const float (&from)[tiles][4],
                                           const SoftmaxTiles<width>& rows, int depth, float* to) {
  for_each_element(from, [&](int r, int c, float x) {
    const int at = rows.row_at[r];
    if (at >= 0 && c < depth) to[static_cast<int64_t>(at) * depth + c] = x;
  });
}

template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) lsh_forward(LshParams p) {
  Shared shared = block_shared();
  const SoftmaxTiles<width> tiles(shared);
  const ChunkPairs<false> pairs(p);
  const SoftmaxSums<width> sums = softmax_forward<T, width>(
      pairs, p.depth, tiles, rows_of<T>(p, p.x), keys_of<T>(p), rows_of<T>(p, p.v));
  const ForwardScratch to(p);
  const int64_t rows = RoundOffsets(p, pairs.own).rows;
  store_rows(sums.out, tiles, p.depth, to.out + rows * p.depth);
  for_each_row([&](int r, int h) {
    const int at = tiles.row_at[r];
    if (at < 0) return;
    to.top[rows + at] = sums.top[h];
    to.sum[rows + at] = sums.sum[h];
  });
}

// The sum of the rounds, a warp a token.
template <class T>
__global__ void __launch_bounds__(kSumThreads) lsh_sum_forward(LshParams p) {
  const int i = static_cast<int>(blockIdx.x) * kSumRows + static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32, item = static_cast<int>(blockIdx.y);
  if (i >= p.length) return;
  const int b = item / p.heads, h = item % p.heads;
  T* const to = head_of<T>(p.out, b, h) + i * p.out.row;
  if (p.mask != nullptr && !p.mask[static_cast<int64_t>(b) * p.length + i]) {
    for (int c = lane; c < p.depth; c += 32) to[c] = from_float<T>(0);
    return;
  }
  const ForwardScratch from(p);
  const int64_t first = static_cast<int64_t>(item) * p.rounds * p.length + i;
  float top = -INFINITY, sum = 0;
  for (int round = 0; round < p.rounds; ++round)
    top = fmaxf(top, from.top[first + static_cast<int64_t>(round) * p.length]);
  for (int round = 0; round < p.rounds; ++round) {
    const int64_t row = first + static_cast<int64_t>(round) * p.length;
    sum = fmaf(from.sum[row], expf(from.top[row] - top), sum);
  }
  const float inverse = 1 / sum;
  for (int c = lane; c < p.depth; c += 32) {
    float mixed = 0;
    for (int round = 0; round < p.rounds; ++round) {
      const int64_t row = first + static_cast<int64_t>(round) * p.length;
      mixed = fmaf(from.out[row * p.depth + c], expf(from.top[row] - top), mixed);
    }
    to[c] = from_float<T>(mixed * inverse);
  }
  if (lane != 0) return;
  p.top[static_cast<int64_t>(item) * p.length + i] = top;
  p.inverse[static_cast<int64_t>(item) * p.length + i] = inverse;
}

// Of tokens as queries. The first round writes `along` too, which the keys' gradients read.
template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) lsh_backward_q(LshParams p) {
  Shared shared = block_shared();
  const SoftmaxBackwardTiles<width> tiles(shared);
  const ChunkPairs<false> pairs(p);
  const int64_t stats = static_cast<int64_t>(blockIdx.y) * p.length;
  const BackwardScratch to(p);
  float grad[width / 8][4] = {};
  softmax_backward_queries<T, width>(pairs, p.depth, tiles, rows_of<T>(p, p.x), keys_of<T>(p),
                                     rows_of<T>(p, p.v), rows_of<T>(p, as_const(p.out)),
                                     rows_of<T>(p, p.grad_out),
                                     {p.top + stats, p.inverse + stats, nullptr}, grad);
  store_rows<width>(grad, tiles, p.depth, to.q + RoundOffsets(p, pairs.own).rows * p.depth);
  if (pairs.own >= p.chunks) return;
  __syncthreads();
  for_each_row([&](int r, int) {
    if (tiles.row_at[r] >= 0) to.along[stats + tiles.row_at[r]] = tiles.along[r];
  });
}

// Of tokens as keys and of their values.
template <class T, int width>
__global__ void __launch_bounds__(kTileThreads, 1) lsh_backward_kv(LshParams p) {
  Shared shared = block_shared();
  const SoftmaxBackwardTiles<width> tiles(shared);
  const ChunkPairs<true> pairs(p);
  const int64_t stats = static_cast<int64_t>(blockIdx.y) * p.length,
                rows = RoundOffsets(p, pairs.own).rows;
  const BackwardScratch to(p);
  float grad_k[width / 8][4] = {}, grad_v[width / 8][4] = {};
  softmax_backward_keys<T, width>(pairs, p.depth, tiles, rows_of<T>(p, p.x), keys_of<T>(p),
                                  rows_of<T>(p, p.v), rows_of<T>(p, p.grad_out),
                                  {p.top + stats, p.inverse + stats, to.along + stats}, grad_k,
                                  grad_v);
  store_rows<width>(grad_k, tiles, p.depth, to.k + rows * p.depth);
  store_rows<width>(grad_v, tiles, p.depth, to.v + rows * p.depth);
}

// The derivative of the factor f of x as a key by x is -f times this times x.
__device__ __forceinline__ float factor_slope(KeyScale scale, float squares, float depth) {
  if (scale == KeyScale::rms) return 1 / (squares + 1e-6F * depth);
  return sqrtf(squares) <= 1e-12F ? 0.0F : 1 / squares;
}

// The sum of the rounds, and of x as query and as key, a warp a token.
template <class T>
__global__ void __launch_bounds__(kSumThreads, 4) lsh_sum_backward(LshParams p) {
  const int i = static_cast<int>(blockIdx.x) * kSumRows + static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32, item = static_cast<int>(blockIdx.y);
  if (i >= p.length) return;
  const int b = item / p.heads, h = item % p.heads;
  T *const to_x = head_of<T>(p.grad_x, b, h) + i * p.grad_x.row, *const to_v =
                                                                     head_of<T>(p.grad_v, b, h) +
                                                                     i * p.grad_v.row;
  const bool token = p.mask == nullptr || p.mask[static_cast<int64_t>(b) * p.length + i];
  const HeadRows<T> x(p.x, b, h);
  const BackwardScratch from(p);
  const int64_t first = (static_cast<int64_t>(item) * p.rounds * p.length + i) * p.depth;
  const auto over_rounds = [&](const float* of, int c) {
    float sum = 0;
    for (int round = 0; round < p.rounds; ++round)
      sum += of[first + static_cast<int64_t>(round) * p.length * p.depth + c];
    return sum;
  };
  float squares = 0, along = 0;
  for (int c = lane; token && c < p.depth; c += 32) {
    squares = fmaf(x(i, c), x(i, c), squares);
    along = fmaf(x(i, c), over_rounds(from.k, c), along);
  }
  squares = warp_sum(squares);
  along = warp_sum(along);
  const float slope = along * factor_slope(p.key_scale, squares, static_cast<float>(p.depth));
  const float factor = token ? p.factors[static_cast<int64_t>(item) * p.length + i] : 0.0F;
  for (int c = lane; c < p.depth; c += 32) {
    const float as_key = token ? (over_rounds(from.k, c) - slope * x(i, c)) * factor : 0.0F;
    to_x[c] = from_float<T>(token ? over_rounds(from.q, c) + as_key : 0.0F);
    to_v[c] = from_float<T>(token ? over_rounds(from.v, c) : 0.0F);
  }
}

Dim3 tile_grid(const LshParams& p) {
  return grid_of(int64_t{p.rounds} * p.chunks * parts_of(p.chunk), p.batch * p.heads);
}
Dim3 sum_grid(const LshParams& p) {
  return grid_of(ceil_div(p.length, kSumRows), p.batch * p.heads);
}

}  // namespace

void launch_lsh_forward(const LshParams& p, Stream stream) {
  launch_lsh_sort(p, stream);
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    launch(lsh_forward<T, kWidth>, tile_grid(p), Dim3{kTileThreads}, SoftmaxTiles<kWidth>::bytes(),
           stream, p);
    launch(lsh_sum_forward<T>, sum_grid(p), Dim3{kSumThreads}, 0, stream, p);
  });
}

void launch_lsh_backward(const LshParams& p, Stream stream) {
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    constexpr size_t kBytes = SoftmaxBackwardTiles<kWidth>::bytes();
    launch(lsh_backward_q<T, kWidth>, tile_grid(p), Dim3{kTileThreads}, kBytes, stream, p);
    launch(lsh_backward_kv<T, kWidth>, tile_grid(p), Dim3{kTileThreads}, kBytes, stream, p);
    launch(lsh_sum_backward<T>, sum_grid(p), Dim3{kSumThreads}, 0, stream, p);
  });
}

}  // namespace lra::ops::cuda
