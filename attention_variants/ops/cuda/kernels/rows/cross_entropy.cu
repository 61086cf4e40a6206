// The loss of a training step (ops/cross_entropy.h): logits [rows,classes], labels [rows] -> sums
// [2], gradient [rows,classes]. Logits are read three times, the last two from cache, and the
// gradient is written once. One block, since a batch has few logits: a warp has every 32nd row, and
// adds up its rows in their order; the warps' sums are added up by one warp.
#include "attention_variants/ops/cuda/kernels/rows/cross_entropy.h"

#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {
namespace {

constexpr int kLossWarps = 32;

struct RowLoss {
  float loss, correct;
};

// By all lanes of a warp.
__device__ __forceinline__ RowLoss row_loss(const CrossEntropyParams& p, int row) {
  const int lane = static_cast<int>(threadIdx.x);
  const float* x = p.logits + static_cast<int64_t>(row) * p.classes;
  float* gradient = p.gradient + static_cast<int64_t>(row) * p.classes;
  const int64_t label = p.labels[row];
  const bool known = label >= 0 && label < p.classes;
  const float of_label = known ? x[label] : NAN;
  float top = -INFINITY, beaten = 0, total = 0;
  for (int c = lane; c < p.classes; c += kWarp) {
    top = fmaxf(top, x[c]);
    const bool below = c < label ? x[c] < of_label : x[c] <= of_label;
    if (!below) beaten = 1;
  }
  top = warp_max(top);
  for (int c = lane; c < p.classes; c += kWarp) total += expf(x[c] - top);
  total = warp_sum(total);
  const float loss = logf(total) - (of_label - top);
  for (int c = lane; c < p.classes; c += kWarp) {
    const float excess = expf(x[c] - top) / total - (c == label ? 1.0F : 0.0F);
    gradient[c] = known ? excess * p.share : NAN;
  }
  return {loss, 1 - warp_max(beaten)};
}

__global__ void __launch_bounds__(kLossWarps* kWarp) cross_entropy_kernel(CrossEntropyParams p) {
  Shared shared = block_shared();
  auto* losses = shared.take<float>(kLossWarps);
  auto* correct = shared.take<float>(kLossWarps);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  RowLoss sum = {0, 0};
  for (int row = warp; row < p.rows; row += kLossWarps) {
    const RowLoss one = row_loss(p, row);
    sum.loss += one.loss;
    sum.correct += one.correct;
  }
  if (lane == 0) {
    losses[warp] = sum.loss;
    correct[warp] = sum.correct;
  }
  __syncthreads();
  if (warp != 0) return;
  static_assert(kLossWarps == kWarp, "a lane has the sum of a warp");
  const float loss = warp_sum(losses[lane]), count = warp_sum(correct[lane]);
  if (lane != 0) return;
  p.sums[0] = loss;
  p.sums[1] = count;
}

}  // namespace

void launch_cross_entropy(const CrossEntropyParams& p, Stream stream) {
  launch(cross_entropy_kernel, {1}, {kWarp, kLossWarps}, 2 * shared_bytes<float>(kLossWarps),
         stream, p);
}

}  // namespace lra::ops::cuda
