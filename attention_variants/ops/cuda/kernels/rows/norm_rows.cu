// K1, forward. Layer normalisation (Ba, Kiros, Hinton, arXiv 2016): x [rows,width] -> normed
// [rows,width], moments [2,rows]. Reads x once, writes normed once. A warp has a row, a lane its
// elements 32 apart, in registers.
#include "attention_variants/ops/cuda/kernels/rows/norm_rows.h"

#include "attention_variants/ops/cuda/kernels/rows/norm_row.h"

namespace lra::ops::cuda {
namespace {

template <class Types, int items>
__global__ void __launch_bounds__(kNormWarps* kWarp) norm_rows_kernel(NormRowsParams p) {
  using N = typename Types::Result;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kNormWarps + threadIdx.y;
  if (r >= p.rows) return;
  const bool real = p.mask == nullptr || p.mask[r];
  RowOfWarp<items> row(static_cast<const typename Types::Input*>(p.x) + r * p.width, p.width, real);
  auto* normed = static_cast<N*>(p.normed) + r * p.width;
  float mean, inverse_sd;
  row.take_moments(p.eps, mean, inverse_sd);
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int c = row.column(i);
    if (c >= p.width) continue;
    const float value = real ? row.of[i] * inverse_sd * p.weight[c] + p.bias[c] : 0;
    normed[c] = from_float<N>(value);
  }
  if (row.lane != 0) return;
  p.moments[r] = mean;
  p.moments[p.rows + r] = inverse_sd;
}

}  // namespace

void launch_norm_rows(const NormRowsParams& p, Stream stream) {
  if (p.rows == 0) return;
  const Dim3 grid{static_cast<unsigned>(ceil_div<int64_t>(p.rows, kNormWarps))};
  with_norm_types(p, [&](auto types) {
    with_norm_items(p.width, [&](auto items) {
      launch(norm_rows_kernel<decltype(types), decltype(items)::value>, grid, {kWarp, kNormWarps},
             0, stream, p);
    });
  });
}

}  // namespace lra::ops::cuda
