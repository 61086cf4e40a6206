// K1. Dropout, residual sum and layer normalisation (Ba, Kiros, Hinton, arXiv 2016; the dropout of
// ops/dropout.h). Forward: x, y [rows,width] -> sum, normed [rows,width], moments [2,rows]; reads x
// and y once and writes sum and normed once. A warp has a row, a lane its elements 32 apart, in
// registers.
#include "attention_variants/ops/cuda/kernels/add_norm.h"

#include "attention_variants/ops/cuda/kernels/device.h"
#include "attention_variants/ops/cuda/kernels/dropout.h"
#include "attention_variants/ops/cuda/kernels/reduce.h"

namespace lra::ops::cuda {
namespace {

constexpr int kWarps = 8;

// `items` elements a lane: width <= 32 items.
template <class X, class Y, class N, int items>
__global__ void __launch_bounds__(kWarps* kWarp) add_norm_kernel(AddNormParams p) {
  const int lane = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  if (row >= p.rows) return;
  const int64_t begin = row * p.width;
  const auto* x = static_cast<const X*>(p.x) + begin;
  const auto* y = static_cast<const Y*>(p.y);
  auto* sum = static_cast<X*>(p.sum);
  auto* normed = static_cast<N*>(p.normed);
  const bool real = p.mask == nullptr || p.mask[row];
  float of[items], total = 0;
  DropoutMask dropout(p.dropout);
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = i * kWarp + lane;
    of[i] = 0;
    if (c >= p.width) continue;
    if (real) of[i] = to_float(x[c]);
    if (real && y != nullptr) of[i] += dropout.apply(to_float(y[begin + c]), begin + c);
    if (sum != nullptr) sum[begin + c] = from_float<X>(of[i]);
    total += of[i];
  }
  if (normed == nullptr) return;
  const float mean = warp_sum(total) / p.width;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    of[i] -= mean;
    if (i * kWarp + lane < p.width) squares += of[i] * of[i];
  }
  const float inverse_sd = rsqrtf(warp_sum(squares) / p.width + p.eps);
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = i * kWarp + lane;
    if (c >= p.width) continue;
    const float value = real ? of[i] * inverse_sd * p.weight[c] + p.bias[c] : 0;
    normed[begin + c] = from_float<N>(value);
  }
  if (lane != 0) return;
  p.moments[row] = mean;
  p.moments[p.rows + row] = inverse_sd;
}

template <class X, class Y, class N>
void launch_for_width(const AddNormParams& p, Stream stream) {
  const Dim3 grid{static_cast<unsigned>(ceil_div<int64_t>(p.rows, kWarps))}, block{kWarp, kWarps};
  const auto with = [&](auto* kernel) { launch(kernel, grid, block, 0, stream, p); };
  if (p.width <= 64) return with(add_norm_kernel<X, Y, N, 2>);
  if (p.width <= 128) return with(add_norm_kernel<X, Y, N, 4>);
  if (p.width <= 256) return with(add_norm_kernel<X, Y, N, 8>);
  if (p.width <= 512) return with(add_norm_kernel<X, Y, N, 16>);
  return with(add_norm_kernel<X, Y, N, 32>);
}

}  // namespace

void launch_add_norm(const AddNormParams& p, Stream stream) {
  if (p.rows == 0) return;
  constexpr Storage f32 = Storage::f32;
  if (p.residual != f32) return launch_for_width<bf16, bf16, bf16>(p, stream);
  if (p.added == f32) return launch_for_width<float, float, float>(p, stream);
  if (p.result == f32) return launch_for_width<float, bf16, float>(p, stream);
  return launch_for_width<float, bf16, bf16>(p, stream);
}

}  // namespace lra::ops::cuda
