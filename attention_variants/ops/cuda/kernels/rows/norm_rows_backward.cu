// K1, backward. Gradients of norm_rows.cu and norm_mean.cu: x, grad_past [rows,width] and
// grad_normed, of each row or one of a sample's rows -> grad_x [rows,width], parts
// [blocks,2,width]; each is read or written once. With n = (x - mean) / sd and g = grad_normed *
// weight, grad_x = (g - mean(g) - n mean(g n)) / sd + grad_past. A warp has a row at a time, a lane
// its columns 32 apart in registers, and their sums over the rows.
#include "attention_variants/ops/cuda/kernels/rows/norm_row.h"
#include "attention_variants/ops/cuda/kernels/rows/norm_rows.h"

namespace lra::ops::cuda {
namespace {

// What a lane adds up over rows: the gradients of weight and bias in its columns.
template <int items>
struct NormSums {
  float weight[items], bias[items];

  // Those of the block's warps, to a part [2,width].
  __device__ __forceinline__ void write(float* part, int width) const {
    Shared shared = block_shared();
    auto* of_warps = shared.take<float>(2 * kNormWarps * kWarp);
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      __syncthreads();
      of_warps[warp * kWarp + lane] = weight[i];
      of_warps[(kNormWarps + warp) * kWarp + lane] = bias[i];
      __syncthreads();
      const int column = i * kWarp + lane;
      if (warp >= 2 || column >= width) continue;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kNormWarps; ++w) sum += of_warps[(warp * kNormWarps + w) * kWarp + lane];
      part[warp * width + column] = sum;
    }
  }
};

// One row; `grad` [items] gets the gradient of x.
template <class X, class N, int items>
__device__ __forceinline__ void norm_backward_row(const NormRowsBackwardParams& p, int64_t r,
                                                  float (&grad)[items], NormSums<items>& sums) {
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t row = r / p.sharing;
  const auto* x = static_cast<const X*>(p.x) + r * p.width;
  const auto* of_normed = static_cast<const N*>(p.grad_normed) + row * p.width;
  const float mean = p.moments[r], inverse_sd = p.moments[p.rows + r],
              factor = p.factors == nullptr ? 1.0F : p.factors[row];
  float normed[items], total = 0, product = 0;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = i * kWarp + lane;
    normed[i] = grad[i] = 0;
    if (c >= p.width) continue;
    const float given = to_float(of_normed[c]) * factor;
    normed[i] = (to_float(x[c]) - mean) * inverse_sd;
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
__global__ void __launch_bounds__(kNormWarps* kWarp, 1)
    norm_rows_backward_kernel(NormRowsBackwardParams p) {
  using X = typename Types::Input;
  const int lane = static_cast<int>(threadIdx.x);
  const auto* past = static_cast<const X*>(p.grad_past);
  auto* grad_x = static_cast<X*>(p.grad_x);
  NormSums<items> sums = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * kNormWarps;
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * kNormWarps + threadIdx.y; r < p.rows;
       r += step) {
    const bool real = p.mask == nullptr || p.mask[r];
    float grad[items] = {};
    if (real) norm_backward_row<X, typename Types::Result>(p, r, grad, sums);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const int c = i * kWarp + lane;
      const int64_t at = r * p.width + c;
      if (c >= p.width) continue;
      if (real && past != nullptr) grad[i] += to_float(past[at]);
      grad_x[at] = from_float<X>(grad[i]);
    }
  }
  sums.write(p.parts + int64_t{2} * blockIdx.x * p.width, p.width);
}

}  // namespace

void launch_norm_rows_backward(const NormRowsBackwardParams& p, Stream stream) {
  if (p.rows == 0) return;
  const Dim3 grid{static_cast<unsigned>(norm_parts(p.rows))};
  with_norm_types(p, [&](auto types) {
    with_norm_items(p.width, [&](auto items) {
      launch(norm_rows_backward_kernel<decltype(types), decltype(items)::value>, grid,
             {kWarp, kNormWarps}, shared_bytes<float>(2 * kNormWarps * kWarp), stream, p);
    });
  });
}

}  // namespace lra::ops::cuda
