#include "attention_variants/ops/layer_norm.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<LayerNormCall> kLayerNorm[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};
constexpr Implementation<LayerNormMeanCall> kLayerNormMean[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};

}  // namespace

torch::Tensor mean_of_rows(const torch::Tensor& sum, const torch::Tensor& mask, int64_t over) {
  if (over > 0) return sum / static_cast<double>(over);
  return sum / mask.unsqueeze(-1).to(sum.scalar_type()).sum(1).clamp_min(1);
}

torch::Tensor layer_norm(Kernels asked, const torch::Tensor& x, const RowNorm& norm,
                         const torch::Tensor& mask) {
  return run_recorded("lra::layer_norm", kLayerNorm, asked, Place::of(x), {.width = x.size(-1)},
                      {x, norm, mask});
}

torch::Tensor layer_norm_mean(Kernels asked, const torch::Tensor& x, const RowNorm& norm,
                              const torch::Tensor& mask, int64_t over) {
  return run_recorded("lra::layer_norm_mean", kLayerNormMean, asked, Place::of(x),
                      {.width = x.size(-1)}, {x, norm, mask, over});
}

}  // namespace lra::ops
