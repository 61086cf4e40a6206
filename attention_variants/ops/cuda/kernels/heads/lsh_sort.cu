// Hashing and sorting of LSH attention (Kitaev et al., ICLR 2020): a token's bucket is argmax
// [Rx; -Rx], of factors the first counting least; each round's tokens stand by (bucket, position).
//
// Traffic: x [B,H,N,d] once, rotations [H,R,width,d] once a block, buckets [B,H,R,N] out and in
// twice, order [B,H,R,places] out. Work: hashes by a thread a token; each round of a head sorted by
// one block, by counting: every warp has a stretch of positions, and a lane the buckets that are
// its own number modulo 32, so that equal buckets keep the order of positions without any atomics.
#include "attention_variants/ops/cuda/kernels/heads/lsh_sort.h"

#include "attention_variants/ops/cuda/kernels/heads/softmax_tiles.h"

namespace lra::ops::cuda {
namespace {

constexpr int kHashThreads = 128, kSortThreads = 256, kSortWarps = kSortThreads / 32;

// Buckets [N] of one round of all heads.
__device__ __forceinline__ int32_t* bucket_row(const LshParams& p, int64_t round) {
  return reinterpret_cast<int32_t*>(p.scratch) + round * p.length;
}

// What multiplies x of squared norm `squares` as a key.
__device__ __forceinline__ float key_factor(KeyScale scale, float squares, float depth) {
  if (scale == KeyScale::rms) return 1 / sqrtf(squares + 1e-6F * depth);
  return 1 / (fmaxf(sqrtf(squares), 1e-12F) * sqrtf(depth));
}

// The place of the largest of [Rx; -Rx], rotations [half,depth].
template <int width>
__device__ __forceinline__ int argmax(const float (&x)[width], const float* rotations, int half,
                                      int depth) {
  float high = 0, low = 0;
  int high_at = 0, low_at = 0;
#pragma unroll 1
  for (int j = 0; j < half; ++j, rotations += depth) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (c < depth) sum = fmaf(x[c], __ldg(rotations + c), sum);
    }
    if (j == 0 || sum > high) {
      high = sum;
      high_at = j;
    }
    if (j == 0 || sum < low) {
      low = sum;
      low_at = j;
    }
  }
  return high >= -low ? high_at : low_at + half;
}

template <class T, int width>
__global__ void __launch_bounds__(kHashThreads, 1) lsh_hash(LshParams p) {
  const int i = static_cast<int>(blockIdx.x * kHashThreads + threadIdx.x),
            b = static_cast<int>(blockIdx.y) / p.heads, h = static_cast<int>(blockIdx.y) % p.heads;
  if (i >= p.length) return;
  if (p.mask != nullptr && !p.mask[static_cast<int64_t>(b) * p.length + i]) return;
  const HeadRows<T> rows(p.x, b, h);
  float x[width], squares = 0;
#pragma unroll
  for (int c = 0; c < width; ++c) {
    x[c] = c < p.depth ? rows(i, c) : 0.0F;
    squares = fmaf(x[c], x[c], squares);
  }
  p.factors[static_cast<int64_t>(blockIdx.y) * p.length + i] =
      key_factor(p.key_scale, squares, static_cast<float>(p.depth));
  for (int round = 0; round < p.rounds; ++round) {
    const float* rotations = p.buckets.rotations + (static_cast<int64_t>(h) * p.rounds + round) *
                                                       p.buckets.width * p.depth;
    int at = 0, stride = 1;
    for (int f = 0; f < p.buckets.factor_count; ++f) {
      const int factor = p.buckets.factors[f], half = factor / 2;
      at += stride * argmax(x, rotations, half, p.depth);
      rotations += static_cast<int64_t>(half) * p.depth;
      stride *= factor;
    }
    bucket_row(p, static_cast<int64_t>(blockIdx.y) * p.rounds + round)[i] = at;
  }
}

// Calls body(counter, position) of the tokens of the warp's stretch in order, in the lane that has
// the bucket; `counters` [buckets] are the warp's.
template <class Body>
__device__ __forceinline__ void for_each_token(const LshParams& p, const bool* mask,
                                               const int32_t* bucket, int* counters,
                                               const Body& body) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
            stretch = (p.length + kSortThreads - 1) / kSortThreads * 32, begin = warp * stretch,
            end = begin + stretch < p.length ? begin + stretch : p.length;
  for (int first = begin; first < end; first += 32) {
    const int i = first + lane;
    const int mine = i < end && (mask == nullptr || mask[i]) ? bucket[i] : -1;
    for (int other = 0; other < 32; ++other) {
      const int its = __shfl_sync(kAllLanes, mine, other);
      if (its >= 0 && its % 32 == lane) body(counters[its], first + other);
    }
  }
}

// counters [kSortWarps,buckets], tokens of each warp and bucket, become the places of their first.
// By one warp; returns the number of tokens in its lanes.
__device__ __forceinline__ int place_counters(int* counters, int buckets) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int placed = 0;
  for (int first = 0; first < buckets; first += 32) {
    const int bucket = first + lane;
    int count = 0;
    for (int warp = 0; warp < kSortWarps && bucket < buckets; ++warp)
      count += counters[warp * buckets + bucket];
    int through = count;  // of this bucket and those of lanes before
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_sync(kAllLanes, through, lane < step ? lane : lane - step);
      if (lane >= step) through += before;
    }
    int place = placed + through - count;
    for (int warp = 0; warp < kSortWarps && bucket < buckets; ++warp) {
      const int own = counters[warp * buckets + bucket];
      counters[warp * buckets + bucket] = place;
      place += own;
    }
    placed += __shfl_sync(kAllLanes, through, 31);
  }
  return placed;
}

__global__ void __launch_bounds__(kSortThreads) lsh_sort(LshParams p) {
  const int64_t round = blockIdx.x;  // of all heads
  const bool* mask = p.mask == nullptr ? nullptr : p.mask + round / p.rounds / p.heads * p.length;
  const int32_t* bucket = bucket_row(p, round);
  int32_t* order = p.order + round * p.chunks * p.chunk;
  Shared shared = block_shared();
  const int count = kSortWarps * p.buckets.count;
  int *const counters = shared.take<int>(count), *const tokens = shared.take<int>(1),
             *const own = counters + static_cast<int>(threadIdx.x) / 32 * p.buckets.count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSortThreads) counters[i] = 0;
  __syncthreads();
  for_each_token(p, mask, bucket, own, [](int& counter, int) { ++counter; });
  __syncthreads();
  if (threadIdx.x < 32) {
    const int placed = place_counters(counters, p.buckets.count);
    if (threadIdx.x == 0) *tokens = placed;
  }
  __syncthreads();
  for_each_token(p, mask, bucket, own, [order](int& place, int i) { order[place++] = i; });
  for (int i = *tokens + static_cast<int>(threadIdx.x); i < p.chunks * p.chunk; i += kSortThreads)
    order[i] = -1;
}

}  // namespace

void launch_lsh_sort(const LshParams& p, Stream stream) {
  const int heads = p.batch * p.heads;
  with_storage_and_width(p.storage, p.depth, [&](auto type, auto width) {
    using T = typename decltype(type)::Type;
    constexpr int kWidth = decltype(width)::value;
    launch(lsh_hash<T, kWidth>, grid_of(ceil_div(p.length, kHashThreads), heads),
           Dim3{kHashThreads}, 0, stream, p);
  });
  const size_t bytes =
      shared_bytes<int>(static_cast<size_t>(kSortWarps * p.buckets.count)) + shared_bytes<int>(1);
  launch(lsh_sort, grid_of(int64_t{heads} * p.rounds, 1), Dim3{kSortThreads}, bytes, stream, p);
}

}  // namespace lra::ops::cuda
