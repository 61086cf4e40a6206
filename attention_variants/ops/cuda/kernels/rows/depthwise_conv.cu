// K7. Depthwise convolution over positions, the skip connection of Nyström attention (ops/
// landmark_attention.h; Xiong et al., AAAI 2021), K taps a head.
//
// Traffic: x [B,H,N,d] in, (64 + K - 1) / 64 times, y [B,H,N,d] out, and in where it is added to.
// The taps' gradient: x and grad_y in, (128 + K - 1) / 128 times and once, a part [K] out for each
// 128 rows and 32 columns. Work: a block has 64 rows of 32 columns of a head in shared memory with
// the rows beside them, a lane a column, a warp 8 rows; each value read serves 8 products. For the
// taps' gradient a block has 128 rows, a warp 8 taps of a quarter of them.
#include "attention_variants/ops/cuda/kernels/rows/depthwise_conv.h"

#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"
#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"

namespace lra::ops::cuda {
namespace {

static_assert(kConvPartColumns == kWarp);

constexpr int kWarps = 8, kTogether = 8;  // rows, or taps, that a thread has in registers
constexpr int kRows = kWarps * kTogether, kGradRows = kConvPartRows, kSlices = 4;

// Which rows and columns a block has: of which head, from which on.
struct ConvItem {
  int b, h, row, column;

  __device__ ConvItem(int heads, int rows)
      : b(static_cast<int>(blockIdx.x) / heads),
        h(static_cast<int>(blockIdx.x) % heads),
        row(static_cast<int>(blockIdx.y) * rows),
        column(static_cast<int>(blockIdx.z) * kWarp) {}
};

// tile [count,kWarp] = rows from `first` on of a head, zero where the mask is false or there is
// none.
template <class T>
__device__ __forceinline__ void load_tile(const Heads& heads, const bool* mask, int length,
                                          int depth, const ConvItem& of, int first, int count,
                                          float* tile) {
  const int lane = threadIdx.x, c = of.column + lane;
  const T* from = static_cast<const T*>(heads.data) + of.b * heads.batch + of.h * heads.head + c;
  if (mask != nullptr) mask += static_cast<int64_t>(of.b) * length;
  for (int r = threadIdx.y; r < count; r += kWarps) {
    const int n = first + r;
    const bool there = n >= 0 && n < length && c < depth && (mask == nullptr || mask[n]);
    tile[r * kWarp + lane] = there ? to_float(from[n * heads.row]) : 0.0F;
  }
}

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) convolve(DepthwiseConvParams p) {
  const ConvItem of(p.heads, kRows);
  const int lane = threadIdx.x, thread = threadIdx.y * kWarp + lane;
  Shared shared = block_shared();
  float *const taps = shared.take<float>(p.taps), *const tile = shared.take<float>(
                                                      (kRows + p.taps - 1) * kWarp);
  for (int j = thread; j < p.taps; j += kWarps * kWarp)
    taps[j] = p.weights[of.h * p.taps + (p.reversed ? p.taps - 1 - j : j)];
  const int before = p.reversed ? p.taps / 2 : (p.taps - 1) / 2;
  load_tile<T>(p.x, p.x_mask, p.length, p.depth, of, of.row - before, kRows + p.taps - 1, tile);
  __syncthreads();

  const int own = static_cast<int>(threadIdx.y) * kTogether;
  const float* next = tile + own * kWarp + lane;
  float sum[kTogether] = {}, x[kTogether];
#pragma unroll
  for (int r = 0; r < kTogether - 1; ++r, next += kWarp) x[r + 1] = *next;
#pragma unroll 8
  for (int j = 0; j < p.taps; ++j, next += kWarp) {
#pragma unroll
    for (int r = 0; r < kTogether - 1; ++r) x[r] = x[r + 1];
    x[kTogether - 1] = *next;
#pragma unroll
    for (int r = 0; r < kTogether; ++r) sum[r] = fmaf(taps[j], x[r], sum[r]);
  }

  const int c = of.column + lane;
  if (c >= p.depth) return;
  T* to = static_cast<T*>(p.y.data) + of.b * p.y.batch + of.h * p.y.head + c;
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    const int n = of.row + own + r;
    if (n >= p.length) break;
    T& y = to[n * p.y.row];
    const bool real = p.y_mask == nullptr || p.y_mask[static_cast<int64_t>(of.b) * p.length + n];
    if (!real) sum[r] = 0;
    y = from_float<T>(real && p.add ? to_float(y) + sum[r] : sum[r]);
  }
}

// The sums of a slice of rows towards kTogether taps, each a warp's sum over its columns.
__device__ __forceinline__ void correlate(const float* grad, const float* x,
                                          float (&sum)[kTogether]) {
  float window[kTogether];
#pragma unroll
  for (int j = 0; j < kTogether; ++j) sum[j] = 0;
#pragma unroll
  for (int j = 0; j < kTogether - 1; ++j, x += kWarp) window[j + 1] = *x;
#pragma unroll 8
  for (int r = 0; r < kGradRows / kSlices; ++r, x += kWarp) {
#pragma unroll
    for (int j = 0; j < kTogether - 1; ++j) window[j] = window[j + 1];
    window[kTogether - 1] = *x;
    const float g = grad[r * kWarp];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) sum[j] = fmaf(g, window[j], sum[j]);
  }
#pragma unroll
  for (int j = 0; j < kTogether; ++j) sum[j] = warp_sum(sum[j]);
}

// Rows of x that the block's rows and whole groups of taps read.
__host__ __device__ constexpr int x_rows_of(int taps) {
  return kGradRows + ceil_div(taps, kTogether) * kTogether - 1;
}

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) correlate_rows(DepthwiseConvWeightParams p) {
  const ConvItem of(p.heads, kGradRows);
  const int lane = threadIdx.x, groups = ceil_div(p.taps, kTogether);
  Shared shared = block_shared();
  float *const grad = shared.take<float>(kGradRows * kWarp),
               *const x = shared.take<float>(x_rows_of(p.taps) * kWarp),
               *const sums = shared.take<float>(kSlices * groups * kTogether);
  load_tile<T>(p.grad_y, p.y_mask, p.length, p.depth, of, of.row, kGradRows, grad);
  load_tile<T>(p.x, p.x_mask, p.length, p.depth, of, of.row - (p.taps - 1) / 2, x_rows_of(p.taps),
               x);
  __syncthreads();
  for (int unit = threadIdx.y; unit < kSlices * groups; unit += kWarps) {
    const int slice = unit % kSlices, tap = unit / kSlices * kTogether,
              row = slice * (kGradRows / kSlices);
    float sum[kTogether];
    correlate(grad + row * kWarp + lane, x + (row + tap) * kWarp + lane, sum);
    if (lane != 0) continue;
#pragma unroll
    for (int j = 0; j < kTogether; ++j) sums[slice * groups * kTogether + tap + j] = sum[j];
  }
  __syncthreads();
  const int64_t part =
      (static_cast<int64_t>(of.b) * gridDim.y + blockIdx.y) * gridDim.z + blockIdx.z;
  float* to = p.scratch + (part * p.heads + of.h) * p.taps;
  for (int j = threadIdx.y * kWarp + lane; j < p.taps; j += kWarps * kWarp) {
    float sum = 0;
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) sum += sums[slice * groups * kTogether + j];
    to[j] = sum;
  }
}

__host__ __device__ constexpr size_t correlate_shared_bytes(int taps) {
  return shared_bytes<float>(kGradRows * kWarp) + shared_bytes<float>(x_rows_of(taps) * kWarp) +
         shared_bytes<float>(kSlices * ceil_div(taps, kTogether) * kTogether);
}
static_assert(correlate_shared_bytes(kMostTaps) <= kMostSharedBytes);
static_assert(correlate_shared_bytes(kFewTaps) <= kLeastSharedBytes);

Dim3 conv_grid(int heads, int length, int depth, int rows) {
  return {static_cast<unsigned>(heads), static_cast<unsigned>(ceil_div(length, rows)),
          static_cast<unsigned>(ceil_div(depth, kWarp))};
}

}  // namespace

void launch_depthwise_conv(const DepthwiseConvParams& p, Stream stream) {
  const size_t shared =
      shared_bytes<float>(p.taps) + shared_bytes<float>((kRows + p.taps - 1) * kWarp);
  launch(p.storage == Storage::f32 ? convolve<float> : convolve<bf16>,
         conv_grid(p.batch * p.heads, p.length, p.depth, kRows), {kWarp, kWarps}, shared, stream,
         p);
}

void launch_depthwise_conv_weight_grad(const DepthwiseConvWeightParams& p, Stream stream) {
  launch(p.storage == Storage::f32 ? correlate_rows<float> : correlate_rows<bf16>,
         conv_grid(p.batch * p.heads, p.length, p.depth, kGradRows), {kWarp, kWarps},
         correlate_shared_bytes(p.taps), stream, p);
  const PartSums sums = {.parts = p.scratch,
                         .count = depthwise_conv_parts(p.batch, p.length, p.depth),
                         .columns = static_cast<int64_t>(p.heads) * p.taps,
                         .sum = p.grad_weights};
  launch_sum_parts({.first = sums, .second = {}}, stream);
}

}  // namespace lra::ops::cuda
