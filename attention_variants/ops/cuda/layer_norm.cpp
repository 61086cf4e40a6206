#include "attention_variants/ops/layer_norm.h"

#include <ATen/autocast_mode.h>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/rows.h"

namespace lra::ops::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class LayerNorm : public torch::autograd::Function<LayerNorm> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mask, double eps) {
    const torch::Tensor x = as_rows(x_given);
    const NormedRows normed = norm_rows(x, weight, bias, eps, mask, x.scalar_type());
    context->save_for_backward({x, weight, mask, normed.moments});
    return normed.rows.view(x_given.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const NormedRowsGrads grads =
        norm_rows_backward(kept[0], kept[1], kept[3], kept[2], as_rows(gradients[0]), {});
    return {grads.x.view(gradients[0].sizes()), grads.weight, grads.bias, {}, {}};
  }
};

}  // namespace

bool takes(const Place& place, const NormShape& shape) {
  return has_kernels(place) && shape.width <= kMaxAddNormWidth;
}

torch::Tensor run(const LayerNormCall& call) {
  // As LibTorch's autocast has it, a norm is in float32.
  const bool autocast = at::autocast::is_autocast_enabled(call.x.device().type());
  return LayerNorm::apply(
      autocast ? call.x.to(torch::kFloat) : call.x, call.norm.weight.to(torch::kFloat).contiguous(),
      call.norm.bias.to(torch::kFloat).contiguous(), kept_mask(call.mask, call.x), call.norm.eps);
}

torch::Tensor run(const LayerNormSumCall& call) {
  // Rows that are not summed are zero.
  return run(LayerNormCall{.x = call.x, .norm = call.norm, .mask = call.mask}).sum(1);
}

}  // namespace lra::ops::cuda
