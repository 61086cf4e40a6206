// A feed-forward block in five launches, and an output projection in two: products by LibTorch, and
// between them one kernel for all that is not a product.
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/dropout.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/rows.h"

namespace lra::ops::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
Activation activation_of(Gelu gelu) {
  return gelu == Gelu::tanh ? Activation::gelu_tanh : Activation::gelu;
}

struct FeedForwardSettings {
  RowsStep first, second;
  double eps = 0;
};

class FeedForward : public torch::autograd::Function<FeedForward> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& norm_weight, const torch::Tensor& norm_bias,
                               const torch::Tensor& in_weight, const torch::Tensor& in_bias,
                               const torch::Tensor& out_weight, const torch::Tensor& out_bias,
                               const torch::Tensor& mask, const FeedForwardSettings& settings) {
    const NoAutocast guard;
    const torch::Tensor x = as_rows(x_given);
    const torch::ScalarType type = in_weight.scalar_type();
    const NormedRows normed = norm_weight.numel() == 0
                                  ? NormedRows{.rows = x.to(type), .moments = {}}
                                  : norm_rows(x, norm_weight, norm_bias, settings.eps, mask, type);
    const torch::Tensor before = at::mm(normed.rows, in_weight.t());  // [rows,F]
    const torch::Tensor after = settings.first.forward(before, in_bias, {}, mask);
    const torch::Tensor y =
        settings.second.forward(at::mm(after, out_weight.t()), out_bias, x, mask);
    context->save_for_backward({x, norm_weight, in_weight, in_bias, out_weight, mask, normed.rows,
                                normed.moments, before});
    save_settings(*context, settings);
    return y.view(x_given.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const NoAutocast guard;
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &norm_weight = kept[1], &in_weight = kept[2],
                        &in_bias = kept[3], &out_weight = kept[4], &mask = kept[5],
                        &normed = kept[6], &moments = kept[7], &before = kept[8];
    const auto& settings = saved_settings<FeedForwardSettings>(*context);
    const int64_t width = out_weight.size(0), hidden = out_weight.size(1);
    const torch::Tensor grad = as_rows(gradients[0]), parts = empty_parts(x, width + hidden),
                        grad_out = torch::empty(x.sizes(), before.options()),
                        after = torch::empty_like(before);
    settings.second.backward({}, {}, grad, mask, grad_out, {}, parts);
    const torch::Tensor grad_hidden = at::mm(grad_out, out_weight);  // [rows,F]
    settings.first.backward(before, in_bias, grad_hidden, mask, grad_hidden, after,
                            parts.narrow(1, width, hidden));
    const torch::Tensor grad_out_weight = at::mm(grad_out.t(), after),
                        grad_in_weight = at::mm(grad_hidden.t(), normed),
                        grad_normed = at::mm(grad_hidden, in_weight);
    const NormedRowsGrads norm =
        norm_weight.numel() == 0
            ? NormedRowsGrads{.x = grad + grad_normed,
                              .weight = {},
                              .bias = {},
                              .others = sum_parts(parts)}
            : norm_rows_backward(x, norm_weight, moments, mask, grad_normed, grad, parts);
    return {norm.x.view(gradients[0].sizes()),
            norm.weight,
            norm.bias,
            grad_in_weight,
            norm.others.narrow(0, width, hidden),
            grad_out_weight,
            norm.others.narrow(0, 0, width),
            {},
            {}};
  }
};

class AddProjected : public torch::autograd::Function<AddProjected> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& y_given, const torch::Tensor& weight,
                               const torch::Tensor& bias, const torch::Tensor& mask,
                               const RowsStep& step) {
    const NoAutocast guard;
    const torch::Tensor y = as_rows(y_given).to(weight.scalar_type());
    const torch::Tensor sum = step.forward(at::mm(y, weight.t()), bias, as_rows(x_given), mask);
    context->save_for_backward({y, weight, mask});
    context->saved_data["type"] = y_given.scalar_type();
    save_settings(*context, step);
    return sum.view(x_given.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const NoAutocast guard;
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &y = kept[0], &weight = kept[1], &mask = kept[2],
                        grad = as_rows(gradients[0]),
                        grad_out = torch::empty(grad.sizes(), y.options()),
                        parts = empty_parts(grad, grad.size(1));
    saved_settings<RowsStep>(*context).backward({}, {}, grad, mask, grad_out, {}, parts);
    std::vector<int64_t> sizes = gradients[0].sizes().vec();
    sizes.back() = y.size(1);
    const torch::ScalarType type = context->saved_data.at("type").toScalarType();
    return {gradients[0],
            at::mm(grad_out, weight).view(sizes).to(type),
            at::mm(grad_out.t(), y),
            sum_parts(parts),
            {},
            {}};
  }
};

class AddDroppedOut : public torch::autograd::Function<AddDroppedOut> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& y, const torch::Tensor& mask,
                               const RowsStep& step) {
    context->save_for_backward({mask});
    context->saved_data["type"] = y.scalar_type();
    save_settings(*context, step);
    return step.forward(as_rows(y), {}, as_rows(x), mask).view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::Tensor mask = saved_tensors(*context)[0], grad = as_rows(gradients[0]),
                        grad_y = torch::empty(
                            grad.sizes(),
                            grad.options().dtype(context->saved_data.at("type").toScalarType()));
    saved_settings<RowsStep>(*context).backward({}, {}, grad, mask, grad_y, {}, {});
    return {gradients[0], grad_y.view(gradients[0].sizes()), {}, {}};
  }
};

// The step that ends a sum with `count` dropped elements.
RowsStep dropped_step(double dropout, bool training, int64_t count) {
  return {.dropout = stream_of(draw_dropout(dropout, training, count))};
}

}  // namespace

bool takes(const Place& place, const DroppedRowsShape& shape) {
  return has_kernels(place) && (shape.same_type || place.type == torch::kFloat) &&
         shape.dropout < 1 && shape.normed_width <= kMaxNormWidth;
}

torch::Tensor run(const FeedForwardCall& call) {
  const FeedForwardWeights& w = call.weights;
  const torch::ScalarType type = product_type(call.x);
  const int64_t hidden = call.x.numel() / w.in_weight.size(1) * w.in_weight.size(0);
  FeedForwardSettings settings{
      .first = dropped_step(call.dropout, call.training, hidden), .second = {}, .eps = w.norm_eps};
  settings.first.activation = activation_of(w.gelu);
  settings.second = dropped_step(call.dropout, call.training, call.x.numel());
  return FeedForward::apply(call.x, float_row(w.norm_weight), float_row(w.norm_bias),
                            product_weight(w.in_weight, type), float_row(w.in_bias),
                            product_weight(w.out_weight, type), float_row(w.out_bias),
                            kept_mask(call.mask, call.x), settings);
}

torch::Tensor run(const AddProjectedCall& call) {
  return AddProjected::apply(call.x, call.y,
                             product_weight(call.layer.weight, product_type(call.x)),
                             float_row(call.layer.bias), kept_mask(call.mask, call.x),
                             dropped_step(call.dropout, call.training, call.x.numel()));
}

torch::Tensor run(const AddDroppedOutCall& call) {
  // y is of bfloat16 where an attention runs under autocast.
  const torch::Tensor y =
      call.y.scalar_type() == torch::kBFloat16 ? call.y : call.y.to(call.x.scalar_type());
  return AddDroppedOut::apply(call.x, y, kept_mask(call.mask, call.x),
                              dropped_step(call.dropout, call.training, call.x.numel()));
}

}  // namespace lra::ops::cuda
