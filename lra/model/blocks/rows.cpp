#include "lra/model/blocks/rows.h"

#include <ATen/autocast_mode.h>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/feed_forward.h"

namespace lra {
namespace {

// As torch names it.
const char* approximation(const ModelOptions& options) {
  return options.gelu == ops::Gelu::tanh ? "tanh" : "none";
}

}  // namespace

bool leaves_autocast(const ModelOptions& options, const torch::Tensor& x) {
  return options.attention_dtype == AttentionDtype::float32 &&
         at::autocast::is_autocast_enabled(x.device().type());
}

GatedRows run_attention(Attention& attention, const BlockPass& pass, const torch::Tensor& x,
                        bool gated) {
  const auto run = [&](const torch::Tensor& rows) {
    return gated ? attention.forward_gated(rows, pass.mask)
                 : GatedRows{.y = attention.forward(rows, pass.mask), .gate = {}};
  };
  GatedRows result;
  if (leaves_autocast(pass.options, x)) {
    const ops::AutocastScope plain = ops::AutocastScope::off(x.device());
    result = run(x.to(torch::kFloat32));
  } else {
    result = run(x);
  }
  check_attention_result(result.y, x, x.sizes());
  if (result.gate.defined()) check_attention_result(result.gate, x, x.sizes());
  return result;
}

torch::Tensor project(const BlockPass& pass, const torch::Tensor& x,
                      const torch::nn::LinearImpl& layer) {
  return ops::linear(pass.kernels, x, nullptr, {{.weight = layer.weight, .bias = layer.bias}},
                     pass.real)
      .y[0];
}

torch::Tensor drop(const ModelOptions& options, bool training, const torch::Tensor& x) {
  return options.dropout_kind == DropoutKind::tied
             ? ops::tied_dropout(x, options.dropout, training)
             : ops::philox_dropout(x, options.dropout, training);
}

torch::Tensor add_dropped(const BlockPass& pass, const torch::Tensor& x, const torch::Tensor& y) {
  const ModelOptions& o = pass.options;
  if (o.dropout_kind == DropoutKind::tied) return x + drop(o, pass.training, y);
  return ops::add_dropped_out(pass.kernels, x, y, o.dropout, pass.training, pass.real);
}

torch::Tensor gelu(const ModelOptions& options, const torch::Tensor& x) {
  return torch::gelu(x, approximation(options));
}

torch::nn::GELU gelu_module(const ModelOptions& options) {
  return torch::nn::GELU(torch::nn::GELUOptions().approximate(approximation(options)));
}

torch::nn::Sequential make_feed_forward(const ModelOptions& options,
                                        const torch::nn::AnyModule& activation) {
  namespace nn = torch::nn;
  nn::Sequential layers;
  if (options.feed_forward == 0) return layers;
  // The last layer draws its start before the first, as it did in the runs so far.
  const nn::Linear out(options.feed_forward, options.width),
      in(options.width, options.feed_forward);
  layers->push_back(in);
  layers->push_back(activation);
  layers->push_back(ops::Dropout(options.dropout));
  layers->push_back(out);
  layers->push_back(ops::Dropout(options.dropout));
  return layers;
}

ops::RowNorm weights_of(const torch::nn::LayerNorm& norm) {
  return {.weight = norm->weight, .bias = norm->bias, .eps = norm->options.eps()};
}

int64_t row_flops(std::span<const torch::Tensor> parameters) {
  int64_t flops = 0;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.dim() == 2) flops += 2 * parameter.numel();
  }
  return flops;
}

}  // namespace lra
