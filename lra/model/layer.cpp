#include "lra/model/layer.h"

#include <ATen/autocast_mode.h>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/feed_forward.h"
#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/projected_attention.h"

namespace lra {
namespace {

// Leaves autocast for a scope, on the device of the tensor given.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(c10::DeviceType device)
      : device_(device), enabled_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_enabled(device_, false);
  }
  ~WithoutAutocast() { at::autocast::set_autocast_enabled(device_, enabled_); }
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_;
};

}  // namespace

Layer make_layer(const ModelOptions& options, std::shared_ptr<Attention> attention) {
  namespace nn = torch::nn;
  const auto norm = nn::LayerNormOptions({options.width}).eps(options.norm_eps);
  const nn::GELUOptions gelu =
      nn::GELUOptions().approximate(options.gelu == ops::Gelu::tanh ? "tanh" : "none");
  return {.attention = std::move(attention),
          .attention_norm = nn::LayerNorm(norm),
          .feed_forward = options.feed_forward == 0
                              ? nn::Sequential()
                              : nn::Sequential(nn::Linear(options.width, options.feed_forward),
                                               nn::GELU(gelu), ops::Dropout(options.dropout),
                                               nn::Linear(options.feed_forward, options.width),
                                               ops::Dropout(options.dropout)),
          .feed_forward_norm = nn::LayerNorm(norm)};
}

torch::Tensor add_attention(const Layer& layer, const LayerPass& pass, const torch::Tensor& x,
                            const torch::Tensor& mask, const torch::Tensor& real,
                            torch::Tensor* given) {
  const ModelOptions& o = pass.options;
  const bool normed = o.norm == NormPlacement::pre,
             alone = o.attention_dtype == AttentionDtype::float32 &&
                     at::autocast::is_autocast_enabled(x.device().type());
  Attention& attention = *layer.attention;
  const ops::RowNorm norm = weights_of(layer.attention_norm);
  if (!attention.reads_padding() && !alone && given == nullptr) {
    NormedInput rows{.x = x, .norm = normed ? &norm : nullptr};
    const auto [joined, output] = attention.attend_unprojected(rows, mask);
    if (joined.defined()) {
      return ops::add_projected(pass.kernels, rows.x, joined, output, o.dropout, pass.training,
                                real);
    }
  }
  const torch::Tensor read = normed ? ops::layer_norm(pass.kernels, x, norm, real) : x;
  if (given != nullptr) *given = read;
  torch::Tensor y;
  if (alone) {
    const WithoutAutocast guard(x.device().type());
    y = attention.forward(read.to(torch::kFloat32), mask);
  } else {
    y = attention.forward(read, mask);
  }
  check_attention_result(y, x, x.sizes());
  return ops::add_dropped_out(pass.kernels, x, y, o.dropout, pass.training, real);
}

torch::Tensor add_feed_forward(const Layer& layer, const LayerPass& pass, const torch::Tensor& x,
                               const torch::Tensor& real) {
  namespace nn = torch::nn;
  const nn::LayerNorm& norm = layer.feed_forward_norm;
  const bool normed = pass.options.norm == NormPlacement::pre;
  const auto& in = layer.feed_forward->at<nn::LinearImpl>(0);
  const auto& out = layer.feed_forward->at<nn::LinearImpl>(3);
  const torch::Tensor none = torch::empty({0}, x.options());
  return ops::feed_forward(pass.kernels, x,
                           {.norm_weight = normed ? norm->weight : none,
                            .norm_bias = normed ? norm->bias : none,
                            .in_weight = in.weight,
                            .in_bias = in.bias,
                            .out_weight = out.weight,
                            .out_bias = out.bias,
                            .norm_eps = norm->options.eps(),
                            .gelu = pass.options.gelu},
                           pass.options.dropout, pass.training, real);
}

ops::RowNorm weights_of(const torch::nn::LayerNorm& norm) {
  return {.weight = norm->weight, .bias = norm->bias, .eps = norm->options.eps()};
}

int64_t row_flops(const torch::nn::Sequential& layers) {
  int64_t flops = 0;
  for (const auto& parameter : layers->parameters()) {
    if (parameter.dim() == 2) flops += 2 * parameter.numel();
  }
  return flops;
}

int64_t layer_flops(const Attention& attention, int64_t batch, int64_t length) {
  const int64_t inner = attention.flops(batch, length);
  if (inner < 0) return -1;
  int64_t a_position = 0;
  for (const auto& parameter : attention.named_parameters()) {
    if (is_projection(parameter.key()) && parameter.value().dim() == 2)
      a_position += 2 * parameter.value().numel();
  }
  return inner + batch * length * a_position;
}

}  // namespace lra
