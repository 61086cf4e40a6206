// Sums of parts [count,columns] over the first index -> [columns]; reads the parts once. A block
// has 32 columns, each warp every eighth part; eight sums a column are added up in shared memory.
#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"

#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::ops::cuda {
namespace {

constexpr int kWarps = 8;

__global__ void __launch_bounds__(kWarps* kWarp) sum_parts_kernel(SumPartsParams p) {
  Shared shared = block_shared();
  auto* sums = shared.take<float>(kWarps * kWarp);
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float sum = 0;
  if (column < p.columns) {
    for (int64_t i = warp; i < p.count; i += kWarps) sum += p.parts[i * p.columns + column];
  }
  sums[warp * kWarp + lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= p.columns) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += sums[w * kWarp + lane];
  p.sum[column] = sum;
}

}  // namespace

void launch_sum_parts(const SumPartsParams& p, Stream stream) {
  if (p.columns == 0) return;
  const Dim3 grid{static_cast<unsigned>(ceil_div<int64_t>(p.columns, kWarp))};
  launch(sum_parts_kernel, grid, {kWarp, kWarps}, shared_bytes<float>(kWarps * kWarp), stream, p);
}

}  // namespace lra::ops::cuda
