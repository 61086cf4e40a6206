// Sums of parts [count,columns] over the first index -> [columns]; reads the parts once. A block
// has 32 columns of one of the sums, each warp every eighth part; eight sums a column are added up
// in shared memory.
#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"

#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::ops::cuda {
namespace {

constexpr int kWarps = 8;

__global__ void __launch_bounds__(kWarps* kWarp) sum_parts_kernel(SumPartsParams p) {
  Shared shared = block_shared();
  auto* sums = shared.take<float>(kWarps * kWarp);
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int64_t block = blockIdx.x, past = ceil_div<int64_t>(p.first.columns, kWarp);
  const bool is_first = block < past;
  // Field by field: an address of parameters would put them into local memory.
  const int64_t count = is_first ? p.first.count : p.second.count,
                columns = is_first ? p.first.columns : p.second.columns;
  const float* parts = is_first ? p.first.parts : p.second.parts;
  float* to = is_first ? p.first.sum : p.second.sum;
  const int64_t column = (is_first ? block : block - past) * kWarp + lane;
  float sum = 0;
  if (column < columns) {
    for (int64_t i = warp; i < count; i += kWarps) sum += parts[i * columns + column];
  }
  sums[warp * kWarp + lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += sums[w * kWarp + lane];
  to[column] = sum;
}

}  // namespace

void launch_sum_parts(const SumPartsParams& p, Stream stream) {
  const int64_t blocks =
      ceil_div<int64_t>(p.first.columns, kWarp) + ceil_div<int64_t>(p.second.columns, kWarp);
  if (blocks == 0) return;
  launch(sum_parts_kernel, {static_cast<unsigned>(blocks)}, {kWarp, kWarps},
         shared_bytes<float>(kWarps * kWarp), stream, p);
}

}  // namespace lra::ops::cuda
