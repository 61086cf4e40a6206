// K1, backward. Gradients of add_norm.cu: sum, grad_normed, grad_sum [rows,width] -> grad_x, grad_y
// [rows,width], parts [blocks,2,width]; each is read or written once. With n = (sum - mean) / sd
// and g = grad_normed * weight, grad_x = (g - mean(g) - n mean(g n)) / sd + grad_sum. A warp has a
// row at a time, a lane its columns 32 apart in registers, and their sums over the rows.
#include "attention_variants/ops/cuda/kernels/rows/add_norm.h"
#include "attention_variants/ops/cuda/kernels/rows/add_norm_types.h"
#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {
namespace {

constexpr int kWarps = kAddNormWarps;

// What a lane adds up over rows: the gradients of weight and bias in its columns.
template <int items>
struct NormSums {
  float weight[items], bias[items];

  // Those of the block's warps, to a part [2,width].
  __device__ __forceinline__ void write(float* part, int width) const {
    Shared shared = block_shared();
    auto* of_warps = shared.take<float>(2 * kWarps * kWarp);
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      __syncthreads();
      of_warps[warp * kWarp + lane] = weight[i];
      of_warps[(kWarps + warp) * kWarp + lane] = bias[i];
      __syncthreads();
      const int column = i * kWarp + lane;
      if (warp >= 2 || column >= width) continue;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += of_warps[(warp * kWarps + w) * kWarp + lane];
      part[warp * width + column] = sum;
    }
  }
};

// One row; `grad` [items] gets the gradient of the sum that was normalised.
template <class X, class N, int items>
__device__ __forceinline__ void norm_backward_row(const AddNormBackwardParams& p, int64_t r,
                                                  float (&grad)[items], NormSums<items>& sums) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto* sum = static_cast<const X*>(p.sum) + r * p.width;
  const auto* of_normed = static_cast<const N*>(p.grad_normed) + r * p.width;
  const float mean = p.moments[r], inverse_sd = p.moments[p.rows + r];
  float normed[items], total = 0, product = 0;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = i * kWarp + lane;
    normed[i] = grad[i] = 0;
    if (c >= p.width) continue;
    const float given = to_float(of_normed[c]);
    normed[i] = (to_float(sum[c]) - mean) * inverse_sd;
    sums.weight[i] += given * normed[i];
    sums.bias[i] += given;
    grad[i] = given * p.weight[c];
    total += grad[i];
    product += grad[i] * normed[i];
  }
  total = warp_sum(total) / p.width;
  product = warp_sum(product) / p.width;
#pragma unroll
  for (int i = 0; i < items; ++i) grad[i] = (grad[i] - total - normed[i] * product) * inverse_sd;
}

template <class Types, int items>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    add_norm_backward_kernel(AddNormBackwardParams p) {
  using X = typename Types::Residual;
  using Y = typename Types::Added;
  const int lane = static_cast<int>(threadIdx.x);
  const auto* of_sum = static_cast<const X*>(p.grad_sum);
  auto* grad_x = static_cast<X*>(p.grad_x);
  auto* grad_y = static_cast<Y*>(p.grad_y);
  DropoutMask dropout(p.dropout);
  NormSums<items> sums = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y; r < p.rows; r += step) {
    const bool real = p.mask == nullptr || p.mask[r];
    float grad[items] = {};
    if (real && p.grad_normed != nullptr)
      norm_backward_row<X, typename Types::Result>(p, r, grad, sums);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const int c = i * kWarp + lane;
      const int64_t at = r * p.width + c;
      if (c >= p.width) continue;
      if (real && of_sum != nullptr) grad[i] += to_float(of_sum[at]);
      if (grad_x != nullptr) grad_x[at] = from_float<X>(grad[i]);
      if (grad_y != nullptr) grad_y[at] = from_float<Y>(dropout.apply(grad[i], at));
    }
  }
  if (p.grad_normed != nullptr) sums.write(p.parts + int64_t{2} * blockIdx.x * p.width, p.width);
}

}  // namespace

void launch_add_norm_backward(const AddNormBackwardParams& p, Stream stream) {
  if (p.rows == 0) return;
  const Dim3 grid{static_cast<unsigned>(add_norm_parts(p.rows))};
  with_add_norm_types(p, [&](auto types) {
    with_add_norm_items(p.width, [&](auto items) {
      launch(add_norm_backward_kernel<decltype(types), decltype(items)::value>, grid,
             {kWarp, kWarps}, shared_bytes<float>(2 * kWarps * kWarp), stream, p);
    });
  });
}

}  // namespace lra::ops::cuda
