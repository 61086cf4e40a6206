#include "lra/model/model.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/embedding.h"
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

// Of one row through the linear layers of a block: two operations a weight.
int64_t row_flops(const torch::nn::Sequential& layers) {
  int64_t flops = 0;
  for (const auto& parameter : layers->parameters()) {
    if (parameter.dim() == 2) flops += 2 * parameter.numel();
  }
  return flops;
}

ops::RowNorm weights_of(const torch::nn::LayerNorm& norm) {
  return {.weight = norm->weight, .bias = norm->bias, .eps = norm->options.eps()};
}

}  // namespace

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

torch::Tensor sinusoidal_positions(int64_t length, int64_t width) {
  TORCH_CHECK(length >= 0 && width > 0 && width % 2 == 0,
              "sinusoidal positions should have an even width, not [", length, ",", width, "]");
  // In float64: the angles reach the length, and float32 has no digits left for their fractions.
  const auto column = torch::arange(0, width, 2, torch::kDouble);
  const auto rate = (column * (-std::log(10000.0) / static_cast<double>(width))).exp();
  const auto angle = torch::arange(length, torch::kDouble).unsqueeze(1) * rate;  // [length,width/2]
  return torch::stack({angle.sin(), angle.cos()}, -1).flatten(1).to(torch::kFloat32);
}

Model::Model(const Task& task, const Config& config)
    : options_(config.settings.model),
      kernels_(config.settings.kernels),
      inputs_(task.inputs),
      length_(config.settings.input.length) {
  namespace nn = torch::nn;
  const ModelOptions& o = options_;
  const bool cls = o.pooling == Pooling::cls;
  const int64_t length = length_ + (cls ? 1 : 0);
  tokens_ = register_module("tokens", nn::Embedding(task.vocabulary, o.width));
  if (o.positions == Positions::learned) {
    positions_ = register_module("positions", nn::Embedding(length, o.width));
  } else {
    fixed_positions_ = register_buffer("fixed_positions", sinusoidal_positions(length, o.width));
  }
  if (cls) cls_ = register_parameter("cls", torch::zeros({o.width}));
  dropout_ = register_module("dropout", ops::Dropout(o.dropout));
  torch::nn::init::normal_(tokens_->weight, 0.0, o.embedding_sd);
  if (positions_) torch::nn::init::normal_(positions_->weight, 0.0, o.position_sd);
  const nn::LayerNormOptions norm({o.width});
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + "_";
    // Each layer has its own seed: no random table is shared across layers.
    const AttentionContext context{.width = o.width,
                                   .heads = o.heads,
                                   .head_dim = o.head_dim,
                                   .max_length = length,
                                   .seed = config.seed * 1000003 + static_cast<uint64_t>(i),
                                   .kernels = kernels_};
    attention_norms_.push_back(register_module(layer + "attention_norm", nn::LayerNorm(norm)));
    const AttentionSpec spec{.name = config.attention.name, .options = config.attention_options};
    attentions_.push_back(register_module(layer + "attention", make_attention(spec, context)));
    feed_forward_norms_.push_back(
        register_module(layer + "feed_forward_norm", nn::LayerNorm(norm)));
    feed_forwards_.push_back(register_module(
        layer + "feed_forward",
        nn::Sequential(nn::Linear(o.width, o.feed_forward), nn::GELU(), ops::Dropout(o.dropout),
                       nn::Linear(o.feed_forward, o.width), ops::Dropout(o.dropout))));
  }
  if (o.norm == NormPlacement::pre)
    final_norm_ = register_module("final_norm", nn::LayerNorm(norm));
  const int64_t features = inputs_ == 1 ? o.width : 4 * o.width;
  classifier_ =
      register_module("classifier", nn::Sequential(nn::Linear(features, o.classifier), nn::ReLU(),
                                                   nn::Linear(o.classifier, task.classes)));
}

torch::Tensor Model::add_attention(size_t i, const torch::Tensor& x, const torch::Tensor& mask,
                                   const torch::Tensor& real, std::vector<torch::Tensor>* seen) {
  const bool normed = options_.norm == NormPlacement::pre,
             alone = options_.attention_dtype == AttentionDtype::float32 &&
                     at::autocast::is_autocast_enabled(x.device().type());
  torch::nn::LayerNorm& norm = attention_norms_[i];
  Attention& attention = *attentions_[i];
  const ops::RowNorm row_norm = weights_of(norm);
  if (!attention.reads_padding() && !alone && seen == nullptr) {
    NormedInput rows{.x = x, .norm = normed ? &row_norm : nullptr};
    const auto [joined, output] = attention.attend_unprojected(rows, mask);
    if (joined.defined()) {
      return ops::add_projected(kernels_, rows.x, joined, output, options_.dropout, is_training(),
                                real);
    }
  }
  const torch::Tensor given = normed ? ops::layer_norm(kernels_, x, row_norm, real) : x;
  if (seen != nullptr) seen->push_back(has_cls() ? given.slice(1, 1) : given);
  torch::Tensor y;
  if (alone) {
    const WithoutAutocast guard(x.device().type());
    y = attention.forward(given.to(torch::kFloat32), mask);
  } else {
    y = attention.forward(given, mask);
  }
  check_attention_result(y, x, x.sizes());
  return ops::add_dropped_out(kernels_, x, y, options_.dropout, is_training(), real);
}

torch::Tensor Model::add_feed_forward(size_t i, const torch::Tensor& x, const torch::Tensor& real) {
  namespace nn = torch::nn;
  nn::Sequential& layers = feed_forwards_[i];
  nn::LayerNorm& norm = feed_forward_norms_[i];
  const bool normed = options_.norm == NormPlacement::pre;
  const auto& in = layers->at<nn::LinearImpl>(0);
  const auto& out = layers->at<nn::LinearImpl>(3);
  const torch::Tensor none = torch::empty({0}, x.options());
  return ops::feed_forward(kernels_, x,
                           {.norm_weight = normed ? norm->weight : none,
                            .norm_bias = normed ? norm->bias : none,
                            .in_weight = in.weight,
                            .in_bias = in.bias,
                            .out_weight = out.weight,
                            .out_bias = out.bias,
                            .norm_eps = norm->options.eps()},
                           options_.dropout, is_training(), real);
}

torch::Tensor Model::encode(const torch::Tensor& tokens, const torch::Tensor& mask,
                            std::vector<torch::Tensor>* seen) {
  TORCH_CHECK(tokens.dim() == 3 && tokens.size(1) == inputs_ && mask.sizes() == tokens.sizes(),
              "tokens and mask should be [B,", inputs_, ",N], not ", tokens.sizes(), " and ",
              mask.sizes());
  TORCH_CHECK(tokens.size(2) <= length_, "the model reads at most ", length_, " tokens, not ",
              tokens.size(2));
  // Nothing reads what the layers make of padding, unless an attention does.
  const bool padding_read = std::ranges::any_of(
      attentions_, [](const auto& attention) { return attention->reads_padding(); });
  const auto without = [&](const torch::Tensor& rows) {
    return padding_read ? torch::Tensor() : rows;
  };
  auto real = mask.flatten(0, 1);  // [B*inputs,N]
  const torch::Tensor ids = tokens.flatten(0, 1),
                      positions = positions_ ? positions_->weight : fixed_positions_;
  torch::Tensor x =
      ops::embed(kernels_, ids, {.tokens = tokens_->weight, .positions = positions, .first = cls_},
                 options_.dropout, is_training(),
                 has_cls() ? torch::Tensor() : without(real));  // [B*inputs,L,D]
  if (has_cls()) real = torch::cat({torch::ones({x.size(0), 1}, real.options()), real}, 1);
  const torch::Tensor rows = without(real);
  const auto normed = [&](torch::nn::LayerNorm& norm) {
    return ops::layer_norm(kernels_, x, weights_of(norm), rows);
  };
  const bool pre = options_.norm == NormPlacement::pre;
  for (size_t i = 0; i < attentions_.size(); ++i) {
    x = add_attention(i, x, real, rows, seen);
    if (!pre) x = normed(attention_norms_[i]);
    x = add_feed_forward(i, x, rows);
    if (!pre) x = normed(feed_forward_norms_[i]);
  }
  return x;
}

torch::Tensor Model::forward(const torch::Tensor& tokens, const torch::Tensor& mask) {
  const torch::Tensor x = encode(tokens, mask, nullptr);  // [B*inputs,L,D]
  const int64_t batch = tokens.size(0), length = tokens.size(2);
  const torch::Tensor real = mask.flatten(0, 1);  // [B*inputs,N]
  const auto normed = [&](const torch::Tensor& y) {
    return final_norm_ ? final_norm_->forward(y) : y;
  };
  torch::Tensor pooled;  // [B*inputs,D]
  if (has_cls()) {
    pooled = normed(x.select(1, 0));
  } else {
    const auto weight = real.unsqueeze(-1).to(x.scalar_type());  // [B*inputs,N,1]
    const auto sum = final_norm_ ? ops::layer_norm_sum(kernels_, x, weights_of(final_norm_), real)
                                 : (x * weight).sum(1);
    pooled = options_.mean_over == MeanOver::length ? sum / static_cast<double>(length)
                                                    : sum / weight.sum(1).clamp_min(1);
  }
  if (inputs_ == 2) {
    const auto both = pooled.reshape({batch, 2, -1});
    const auto a = both.select(1, 0), b = both.select(1, 1);  // [B,D]
    pooled = torch::cat({a, b, a * b, a - b}, -1);            // [B,4D]
  }
  return classifier_->forward(pooled);
}

std::vector<torch::Tensor> Model::attention_inputs(const torch::Tensor& tokens,
                                                   const torch::Tensor& mask) {
  std::vector<torch::Tensor> seen;
  encode(tokens, mask, &seen);
  return seen;
}

bool Model::length_invariant() const {
  return (has_cls() || options_.mean_over != MeanOver::length) &&
         std::ranges::all_of(attentions_,
                             [](const auto& attention) { return attention->length_invariant(); });
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

int64_t Model::flops(int64_t batch, int64_t length) const {
  const int64_t rows = batch * inputs_, positions = length + (has_cls() ? 1 : 0);
  int64_t flops = batch * row_flops(classifier_);
  for (size_t i = 0; i < attentions_.size(); ++i) {
    const int64_t layer = layer_flops(*attentions_[i], rows, positions);
    if (layer < 0) return -1;
    flops += layer + rows * positions * row_flops(feed_forwards_[i]);
  }
  return flops;
}

}  // namespace lra
