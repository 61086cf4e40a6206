#include "attention_variants/ops/feed_forward.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch.h"
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
  const DroppedRows shape{
      .dropout = dropout, .gelu = weights.gelu, .normed_width = weights.norm_weight.size(0)};
  return pick(kFeedForward, asked, Place::of(x), shape).run({x, weights, dropout, training, mask});
}

torch::Tensor add_projected(Kernels asked, const torch::Tensor& x, const torch::Tensor& y,
                            const LinearWeights& layer, double dropout, bool training,
                            const torch::Tensor& mask) {
  return pick(kAddProjected, asked, Place::of(x), {.dropout = dropout})
      .run({x, y, layer, dropout, training, mask});
}

torch::Tensor add_dropped_out(Kernels asked, const torch::Tensor& x, const torch::Tensor& y,
                              double dropout, bool training, const torch::Tensor& mask) {
  const DroppedRows shape{.dropout = dropout, .same_type = x.scalar_type() == y.scalar_type()};
  return pick(kAddDroppedOut, asked, Place::of(x), shape).run({x, y, dropout, training, mask});
}

}  // namespace lra::ops
