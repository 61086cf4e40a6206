// Sums over rows, read once, in two launches. Of x [rows,columns]: a block has 128 columns of a
// stretch of rows, a lane four of them, each warp every eighth row -> parts [count,columns]. Of
// parts -> [columns]: a block has 32 columns of one of the sums, each warp every eighth part. Eight
// sums a column are added up in shared memory.
#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"

#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout_rows.h"

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

constexpr int kLaneColumns = 4, kBlockColumns = kLaneColumns * kWarp;

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) column_parts_kernel(ColumnPartsParams p) {
  Shared shared = block_shared();
  auto* sums = shared.take<float>(kWarps * kBlockColumns);
  const int lane = threadIdx.x, warp = threadIdx.y,
            first = static_cast<int>(blockIdx.x) * kBlockColumns;
  const int64_t rows = dropout_rows_of_part(p.rows), begin = blockIdx.y * rows,
                end = begin + rows < p.rows ? begin + rows : p.rows;
  const T* const x = static_cast<const T*>(p.x);
  float sum[kLaneColumns] = {};
#pragma unroll 4
  for (int64_t r = begin + warp; r < end; r += kWarps) {
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) {
      const int column = first + i * kWarp + lane;
      if (column < p.columns) sum[i] += to_float(x[r * p.columns + column]);
    }
  }
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) sums[warp * kBlockColumns + i * kWarp + lane] = sum[i];
  __syncthreads();
  const int own = warp * kWarp + lane, column = first + own;
  if (own >= kBlockColumns || column >= p.columns) return;
  float total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total += sums[w * kBlockColumns + own];
  p.parts[blockIdx.y * int64_t{p.columns} + column] = total;
}

}  // namespace

void launch_column_parts(const ColumnPartsParams& p, Stream stream) {
  if (p.rows == 0) return;
  auto* kernel = p.storage == Storage::f32 ? column_parts_kernel<float> : column_parts_kernel<bf16>;
  launch(kernel,
         {static_cast<unsigned>(ceil_div(p.columns, kBlockColumns)),
          static_cast<unsigned>(dropout_rows_parts(p.rows))},
         {kWarp, kWarps}, shared_bytes<float>(kWarps * kBlockColumns), stream, p);
}

void launch_sum_parts(const SumPartsParams& p, Stream stream) {
  const int64_t blocks =
      ceil_div<int64_t>(p.first.columns, kWarp) + ceil_div<int64_t>(p.second.columns, kWarp);
  if (blocks == 0) return;
  launch(sum_parts_kernel, {static_cast<unsigned>(blocks)}, {kWarp, kWarps},
         shared_bytes<float>(kWarps * kWarp), stream, p);
}

}  // namespace lra::ops::cuda
