#include "attention_variants/ops/feed_forward.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<FeedForwardCall> kFeedForward[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};
constexpr Implementation<AddProjectedCall> kAddProjected[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};
constexpr Implementation<AddDroppedOutCall> kAddDroppedOut[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};

}  // namespace

torch::Tensor feed_forward(Kernels asked, const torch::Tensor& x, const FeedForwardWeights& weights,
                           double dropout, bool training, const torch::Tensor& mask) {
  const DroppedRowsShape shape{
      .dropout = dropout, .gelu = weights.gelu, .normed_width = weights.norm_weight.size(0)};
  return run_recorded("lra::feed_forward", kFeedForward, asked, Place::of(x), shape,
                      {x, weights, dropout, training, mask});
}

torch::Tensor add_projected(Kernels asked, const torch::Tensor& x, const torch::Tensor& y,
                            const LinearWeights& layer, double dropout, bool training,
                            const torch::Tensor& mask) {
  return run_recorded("lra::add_projected", kAddProjected, asked, Place::of(x),
                      {.dropout = dropout}, {x, y, layer, dropout, training, mask});
}

torch::Tensor add_dropped_out(Kernels asked, const torch::Tensor& x, const torch::Tensor& y,
                              double dropout, bool training, const torch::Tensor& mask) {
  const DroppedRowsShape shape{.dropout = dropout, .same_type = x.scalar_type() == y.scalar_type()};
  return run_recorded("lra::add_dropped_out", kAddDroppedOut, asked, Place::of(x), shape,
                      {x, y, dropout, training, mask});
}

}  // namespace lra::ops
