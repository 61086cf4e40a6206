#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/heads.h"

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

struct MeanSettings {
  double eps = 0;
  int64_t over = 0;
};

class LayerNormMean : public torch::autograd::Function<LayerNormMean> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mask, const MeanSettings& settings) {
    const torch::Tensor x = dense(x_given);
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto floats = x.options().dtype(torch::kFloat);
    const torch::Tensor moments = torch::empty({2, batch * length}, floats),
                        parts = torch::empty(
                            {batch, norm_mean_parts(static_cast<int>(length)), width}, floats),
                        factors = torch::empty({batch}, floats);
    torch::Tensor mean = torch::empty({batch, width}, x.options());
    start(&KernelTable::norm_mean, x,
          NormMeanParams{.batch = static_cast<int>(batch),
                         .length = static_cast<int>(length),
                         .width = static_cast<int>(width),
                         .storage = storage_of(x),
                         .x = data_of(x),
                         .mask = data_of<bool>(mask),
                         .weight = data_of<float>(weight),
                         .bias = data_of<float>(bias),
                         .eps = static_cast<float>(settings.eps),
                         .over = static_cast<float>(settings.over),
                         .moments = data_of<float>(moments),
                         .parts = data_of<float>(parts),
                         .factors = data_of<float>(factors),
                         .mean = data_of(mean)});
    context->save_for_backward({x, weight, mask, moments, factors});
    return mean;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor& x = kept[0];
    const NormedRowsGrads grads =
        norm_rows_backward(as_rows(x), kept[1], kept[3], kept[2], dense(gradients[0]), {},
                           /*other_parts=*/{}, /*factors=*/kept[4]);
    return {grads.x.view(x.sizes()), grads.weight, grads.bias, {}, {}};
  }
};

// As LibTorch's autocast has it, a norm is in float32.
torch::Tensor norm_input(const torch::Tensor& x) {
  return at::autocast::is_autocast_enabled(x.device().type()) ? x.to(torch::kFloat) : x;
}

}  // namespace

bool takes(const Place& place, const NormShape& shape) {
  return has_kernels(place) && shape.width <= kMaxNormWidth;
}

torch::Tensor run(const LayerNormCall& call) {
  return LayerNorm::apply(norm_input(call.x), float_row(call.norm.weight),
                          float_row(call.norm.bias), kept_mask(call.mask, call.x), call.norm.eps);
}

torch::Tensor run(const LayerNormMeanCall& call) {
  return LayerNormMean::apply(norm_input(call.x), float_row(call.norm.weight),
                              float_row(call.norm.bias), dense(call.mask),
                              MeanSettings{.eps = call.norm.eps, .over = call.over});
}

}  // namespace lra::ops::cuda
