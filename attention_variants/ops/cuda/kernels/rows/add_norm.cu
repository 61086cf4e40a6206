// K1, forward. Dropout, residual sum and layer normalisation (Ba, Kiros, Hinton, arXiv 2016; the
// dropout of ops/dropout.h): x, y [rows,width] -> sum, normed [rows,width], moments [2,rows]. Reads
// x and y once, writes sum and normed once. A warp has a row, a lane its elements 32 apart, in
// registers.
#include "attention_variants/ops/cuda/kernels/rows/add_norm.h"

#include "attention_variants/ops/cuda/kernels/rows/add_norm_types.h"
#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {
namespace {

constexpr int kWarps = kAddNormWarps;

// The elements of a row in the lanes of a warp: 0 beyond the width.
template <int items>
struct RowOfWarp {
  float of[items];
  int lane, width;

  __device__ __forceinline__ int column(int item) const { return item * kWarp + lane; }

  // Leaves of[] less the mean.
  __device__ __forceinline__ void take_moments(float eps, float& mean, float& inverse_sd) {
    float total = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < items; ++i) total += of[i];
    mean = warp_sum(total) / width;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      of[i] -= mean;
      if (column(i) < width) squares += of[i] * of[i];
    }
    inverse_sd = rsqrtf(warp_sum(squares) / width + eps);
  }
};

template <class Types, int items>
__global__ void __launch_bounds__(kWarps* kWarp) add_norm_kernel(AddNormParams p) {
  using X = typename Types::Residual;
  using Y = typename Types::Added;
  using N = typename Types::Result;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y, begin = r * p.width;
  if (r >= p.rows) return;
  const auto* x = static_cast<const X*>(p.x) + begin;
  const auto* y = static_cast<const Y*>(p.y);
  auto* sum = static_cast<X*>(p.sum);
  auto* normed = static_cast<N*>(p.normed);
  const bool real = p.mask == nullptr || p.mask[r];
  DropoutMask dropout(p.dropout);
  RowOfWarp<items> row;
  row.lane = static_cast<int>(threadIdx.x), row.width = p.width;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = row.column(i);
    row.of[i] = 0;
    if (c >= p.width) continue;
    if (real) row.of[i] = to_float(x[c]);
    if (real && y != nullptr) row.of[i] += dropout.apply(to_float(y[begin + c]), begin + c);
    if (sum == nullptr) continue;
    const X stored = from_float<X>(row.of[i]);
    sum[begin + c] = stored;
    row.of[i] = to_float(stored);  // what the backward pass will find
  }
  if (normed == nullptr) return;
  float mean, inverse_sd;
  row.take_moments(p.eps, mean, inverse_sd);
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = row.column(i);
    if (c >= p.width) continue;
    const float value = real ? row.of[i] * inverse_sd * p.weight[c] + p.bias[c] : 0;
    normed[begin + c] = from_float<N>(value);
  }
  if (row.lane != 0) return;
  p.moments[r] = mean;
  p.moments[p.rows + r] = inverse_sd;
}

}  // namespace

void launch_add_norm(const AddNormParams& p, Stream stream) {
  if (p.rows == 0) return;
  const Dim3 grid{static_cast<unsigned>(ceil_div<int64_t>(p.rows, kWarps))};
  with_add_norm_types(p, [&](auto types) {
    with_add_norm_items(p.width, [&](auto items) {
      launch(add_norm_kernel<decltype(types), decltype(items)::value>, grid, {kWarp, kWarps}, 0,
             stream, p);
    });
  });
}

}  // namespace lra::ops::cuda
