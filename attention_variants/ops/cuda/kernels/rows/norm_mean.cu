// Layer normalisation (Ba, Kiros, Hinton, arXiv 2016) and the mean of a sample's tokens: x
// [B,N,D], mask [B,N] -> mean [B,D], moments [2,B,N].
//
// Traffic: x in once, nothing of its size out. Work: first a block adds up some rows of a sample
// less their means, by their standard deviations; a warp has a row at a time, a lane its columns 32
// apart in registers, and their sums. Then a block a sample counts its tokens, adds up the parts in
// their order, and applies weight and bias, which are the same in all rows, to the sum.
#include "attention_variants/ops/cuda/kernels/rows/norm_mean.h"

#include "attention_variants/ops/cuda/kernels/rows/norm_row.h"

namespace lra::ops::cuda {
namespace {

constexpr int kNormThreads = kNormWarps * kWarp;

template <class T, int items>
__global__ void __launch_bounds__(kNormThreads) norm_sum_parts(NormMeanParams p) {
  Shared shared = block_shared();
  auto* of_warps = shared.take<float>(kNormThreads);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y),
            b = static_cast<int>(blockIdx.x), part = static_cast<int>(blockIdx.y),
            rows = norm_mean_rows_of_part(p.length), begin = part * rows,
            end = begin + rows < p.length ? begin + rows : p.length;
  float sums[items] = {};
  for (int n = begin + warp; n < end; n += kNormWarps) {
    const int64_t r = static_cast<int64_t>(b) * p.length + n;
    if (!p.mask[r]) continue;
    RowOfWarp<items> row(static_cast<const T*>(p.x) + r * p.width, p.width, true);
    float mean, inverse_sd;
    row.take_moments(p.eps, mean, inverse_sd);
#pragma unroll
    for (int i = 0; i < items; ++i) sums[i] += row.of[i] * inverse_sd;
    if (lane != 0) continue;
    p.moments[r] = mean;
    p.moments[static_cast<int64_t>(p.batch) * p.length + r] = inverse_sd;
  }
  float* to = p.parts + (static_cast<int64_t>(b) * gridDim.y + part) * p.width;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = i * kWarp + lane;
    __syncthreads();
    of_warps[warp * kWarp + lane] = sums[i];
    __syncthreads();
    if (warp != 0 || c >= p.width) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kNormWarps; ++w) sum += of_warps[w * kWarp + lane];
    to[c] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kNormThreads) norm_mean_of_parts(NormMeanParams p) {
  Shared shared = block_shared();
  auto* scratch = shared.take<float>(kWarp);
  const int thread = static_cast<int>(threadIdx.x), b = static_cast<int>(blockIdx.x),
            parts = norm_mean_parts(p.length);
  const bool* mask = p.mask + static_cast<int64_t>(b) * p.length;
  float own = 0;
  for (int n = thread; n < p.length; n += kNormThreads) own += mask[n] ? 1.0F : 0.0F;
  const float count = block_reduce<Sum>(own, thread, kNormThreads, scratch),
              factor = 1 / (p.over > 0 ? p.over : fmaxf(count, 1));
  if (thread == 0) p.factors[b] = factor;
  const float* of = p.parts + static_cast<int64_t>(b) * parts * p.width;
  auto* mean = static_cast<T*>(p.mean) + static_cast<int64_t>(b) * p.width;
  for (int c = thread; c < p.width; c += kNormThreads) {
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += of[part * p.width + c];
    mean[c] = from_float<T>((sum * p.weight[c] + p.bias[c] * count) * factor);
  }
}

template <class T>
void launch_of(const NormMeanParams& p, Stream stream) {
  const auto batch = static_cast<unsigned>(p.batch);
  with_norm_items(p.width, [&](auto items) {
    launch(norm_sum_parts<T, decltype(items)::value>,
           {batch, static_cast<unsigned>(norm_mean_parts(p.length))}, {kWarp, kNormWarps},
           shared_bytes<float>(kNormThreads), stream, p);
  });
  launch(norm_mean_of_parts<T>, {batch}, {kNormThreads}, shared_bytes<float>(kWarp), stream, p);
}

}  // namespace

void launch_norm_mean(const NormMeanParams& p, Stream stream) {
  if (p.batch == 0) return;
  if (p.storage == Storage::f32) return launch_of<float>(p, stream);
  launch_of<bf16>(p, stream);
}

}  // namespace lra::ops::cuda
