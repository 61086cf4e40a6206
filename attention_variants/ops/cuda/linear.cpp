// Linear layers of the same rows as one product, with joined weights.
#include <utility>
#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/rows.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
struct LinearSettings {
  double eps = 0;
  std::vector<int64_t> widths;  // of each layer's result
};

class LinearLayers : public torch::autograd::Function<LinearLayers> {
 public:
  // `parameters`: weight and bias of one layer after the other.
  static variable_list forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& norm_weight, const torch::Tensor& norm_bias,
                               const torch::Tensor& mask, at::TensorList parameters, double eps) {
    const NoAutocast guard;
    LinearSettings settings{.eps = eps, .widths = {}};
    variable_list weights, biases;
    for (size_t i = 0; i < parameters.size(); i += 2) {
      weights.push_back(parameters[i]);
      biases.push_back(parameters[i + 1]);
      settings.widths.push_back(parameters[i].size(0));
    }
    const torch::Tensor rows = as_rows(x);
    const auto [weight, bias] = joined(weights, biases);
    const NormedRows normed =
        norm_weight.numel() == 0
            ? NormedRows{.rows = tokens_of(rows, mask).to(weight.scalar_type()), .moments = {}}
            : norm_rows(rows, norm_weight, norm_bias, eps, mask, weight.scalar_type());
    const torch::Tensor all =
        at::addmm(bias, normed.rows, weight.t()).view({x.size(0), x.size(1), weight.size(0)});
    variable_list outputs;
    {
      const at::AutoDispatchBelowADInplaceOrView no_views;  // to autograd they are results
      int64_t begin = 0;
      for (const int64_t width : settings.widths) {
        outputs.push_back(all.narrow(2, begin, width));
        begin += width;
      }
    }
    outputs.push_back(x);
    context->save_for_backward({rows, norm_weight, mask, normed.rows, normed.moments, weight});
    save_settings(*context, std::move(settings));
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const NoAutocast guard;
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &rows = kept[0], &norm_weight = kept[1], &mask = kept[2], &normed = kept[3],
                        &moments = kept[4], &weight = kept[5], past = as_rows(gradients.back());
    const auto& settings = saved_settings<LinearSettings>(*context);
    const std::vector<int64_t> sizes = gradients.back().sizes().vec();
    gradients.pop_back();
    const torch::Tensor grad = as_rows(join_rows(gradients));
    const torch::Tensor grad_weight = at::mm(grad.t(), normed), grad_normed = at::mm(grad, weight),
                        of_bias = column_parts(grad);
    const NormedRowsGrads norm =
        norm_weight.numel() == 0
            ? NormedRowsGrads{.x = past + grad_normed,
                              .weight = {},
                              .bias = {},
                              .others = sum_parts(of_bias)}
            : norm_rows_backward(rows, norm_weight, moments, mask, grad_normed, past, of_bias);
    const torch::Tensor grad_bias = norm.others.to(grad.scalar_type());
    variable_list result = {norm.x.view(sizes), norm.weight, norm.bias, {}};
    int64_t begin = 0;
    for (const int64_t width : settings.widths) {
      result.push_back(grad_weight.narrow(0, begin, width));
      result.push_back(grad_bias.narrow(0, begin, width));
      begin += width;
    }
    result.emplace_back();
    return result;
  }

 private:
  // With rows of padding zero: their gradients are, and times what stands there they should be.
  static torch::Tensor tokens_of(const torch::Tensor& rows, const torch::Tensor& mask) {
    return mask.numel() == 0 ? rows : rows.masked_fill(~mask.view({-1, 1}), 0);
  }

  // The parameters of one layer after another's, copied in one launch.
  static std::pair<torch::Tensor, torch::Tensor> joined(const variable_list& weights,
                                                        const variable_list& biases) {
    if (weights.size() == 1) return {weights[0], biases[0]};
    int64_t width = 0;
    for (const torch::Tensor& bias : biases) width += bias.size(0);
    const torch::Tensor weight = torch::empty({width, weights[0].size(1)}, weights[0].options()),
                        bias = torch::empty({width}, biases[0].options());
    variable_list from, to;
    int64_t begin = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t own = biases[i].size(0);
      from.insert(from.end(), {weights[i], biases[i]});
      to.insert(to.end(), {weight.narrow(0, begin, own), bias.narrow(0, begin, own)});
      begin += own;
    }
    at::_foreach_copy_(to, from);
    return {weight, bias};
  }
};

class MaskedLayer : public torch::autograd::Function<MaskedLayer> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mask) {
    const NoAutocast guard;
    const torch::Tensor x = as_rows(x_given).to(weight.scalar_type());
    const torch::Tensor y = RowsStep().forward(at::mm(x, weight.t()), bias, {}, mask);
    context->save_for_backward({x, weight, mask});
    context->saved_data["type"] = x_given.scalar_type();
    return y.view({x_given.size(0), x_given.size(1), weight.size(0)});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const NoAutocast guard;
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &weight = kept[1], &mask = kept[2],
                        given = as_rows(gradients[0]), grad = torch::empty_like(given),
                        parts = empty_parts(given, given.size(1));
    RowsStep().backward({}, {}, given, mask, grad, {}, parts);
    const torch::ScalarType type = context->saved_data.at("type").toScalarType();
    return {
        at::mm(grad, weight).to(type).view({gradients[0].size(0), gradients[0].size(1), x.size(1)}),
        at::mm(grad.t(), x),
        sum_parts(parts),
        {}};
  }
};

}  // namespace

bool takes(const Place& place, const AnyRowsShape& shape) {
  return has_kernels(place) && shape.normed_width <= kMaxNormWidth;
}

LinearRows run(const LinearCall& call) {
  const torch::ScalarType type = product_type(call.x);
  const torch::Tensor none = torch::empty({0}, call.x.options());
  const auto& norm = call.norm;
  variable_list parameters;
  for (const LinearWeights& layer : call.layers) {
    parameters.push_back(product_weight(layer.weight, type));
    parameters.push_back(product_weight(layer.bias, type));
  }
  variable_list outputs = LinearLayers::apply(
      dense(call.x), norm ? float_row(norm->weight) : none, norm ? float_row(norm->bias) : none,
      kept_mask(call.mask, call.x), at::TensorList(parameters), norm ? norm->eps : 0.0);
  LinearRows rows{.y = {}, .x = outputs.back()};
  outputs.pop_back();
  rows.y = std::move(outputs);
  return rows;
}

torch::Tensor run(const MaskedLinearCall& call) {
  return MaskedLayer::apply(call.x, product_weight(call.layer.weight, product_type(call.x)),
                            float_row(call.layer.bias), dense(call.mask));
}

}  // namespace lra::ops::cuda
