#include "attention_variants/ops/linear.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<LinearCall> kLinear[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};
constexpr Implementation<MaskedLinearCall> kMaskedLinear[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};

}  // namespace

LinearRows linear(Kernels asked, const torch::Tensor& x, const RowNorm* norm,
                  const std::vector<LinearWeights>& layers, const torch::Tensor& mask) {
  LinearCall call{.x = x, .norm = {}, .layers = layers, .mask = mask};
  if (norm != nullptr) call.norm = *norm;
  const AnyRowsShape shape{.normed_width = norm == nullptr ? 0 : x.size(-1)};
  return run_recorded("lra::linear", kLinear, asked, Place::of(x), shape, call);
}

torch::Tensor masked_linear(Kernels asked, const torch::Tensor& x, const LinearWeights& layer,
                            const torch::Tensor& mask) {
  return run_recorded("lra::masked_linear", kMaskedLinear, asked, Place::of(x), {},
                      {x, layer, mask});
}

}  // namespace lra::ops
