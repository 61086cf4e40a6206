#include "lra/model/model.h"

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/embedding.h"
#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/registry.h"
#include "lra/model/classifier.h"

namespace lra {
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
      length_(config.settings.input.length),
      masked_(config.settings.input.mask != InputMask::none),
      at_positions_(task.position_labels) {
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
  const auto shared = std::make_shared<SharedTensors>();
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + "_";
    // Each layer has its own seed: no random table is shared across layers.
    const AttentionContext context{.width = o.width,
                                   .heads = o.heads,
                                   .head_dim = o.head_dim,
                                   .max_length = length,
                                   .seed = config.seed * 1000003 + static_cast<uint64_t>(i),
                                   .kernels = kernels_,
                                   .padded_rows = o.padded_rows,
                                   .dropout = o.dropout,
                                   .bias = o.attention_bias,
                                   .layer = i,
                                   .shared = shared,
                                   .causal = o.causal};
    const AttentionSpec spec{.name = config.attention.name, .options = config.attention_options};
    layers_.push_back(make_layer(o, make_attention(spec, context)));
    register_module(layer + "attention_norm", layers_.back().attention_norm);
    register_module(layer + "attention", layers_.back().attention);
    if (o.feed_forward == 0) continue;
    register_module(layer + "feed_forward_norm", layers_.back().feed_forward_norm);
    register_module(layer + "feed_forward", layers_.back().feed_forward);
  }
  if (o.norm == NormPlacement::pre)
    final_norm_ = register_module("final_norm",
                                  nn::LayerNorm(nn::LayerNormOptions({o.width}).eps(o.norm_eps)));
  classifier_ = register_module("classifier", make_classifier(o, inputs_, task.classes));
  if (o.init == Init::flax) start_as_flax(layers_, classifier_);
}

torch::Tensor Model::encode(const torch::Tensor& tokens, const torch::Tensor& mask,
                            std::vector<torch::Tensor>* seen) {
  TORCH_CHECK(tokens.dim() == 3 && tokens.size(1) == inputs_ && mask.sizes() == tokens.sizes(),
              "tokens and mask should be [B,", inputs_, ",N], not ", tokens.sizes(), " and ",
              mask.sizes());
  TORCH_CHECK(tokens.size(2) <= length_, "the model reads at most ", length_, " tokens, not ",
              tokens.size(2));
  // Nothing reads what the layers make of padding, unless an attention or the mean does.
  const bool padding_read = options_.padded_rows == ops::PaddedRows::uniform || mean_of_all() ||
                            std::ranges::any_of(layers_, [](const Layer& layer) {
                              return layer.attention->reads_padding();
                            });
  const bool none_padded = ops::FullMask::covers(mask);
  const auto without = [&](const torch::Tensor& rows) {
    return padding_read || none_padded ? torch::Tensor() : rows;
  };
  auto real = mask.flatten(0, 1);  // [B*inputs,N]
  const torch::Tensor ids = tokens.flatten(0, 1),
                      positions = positions_ ? positions_->weight : fixed_positions_;
  torch::Tensor x =
      ops::embed(kernels_, ids, {.tokens = tokens_->weight, .positions = positions, .first = cls_},
                 options_.dropout, is_training(),
                 has_cls() ? torch::Tensor() : without(real));  // [B*inputs,L,D]
  if (has_cls()) {
    const torch::Tensor first = real.narrow(1, 0, 1);
    real = torch::cat(
        {options_.cls_mask == ClsMask::first_token ? first : torch::ones_like(first), real}, 1);
  }
  const torch::Tensor rows = without(real);
  const auto normed = [&](torch::nn::LayerNorm& norm) {
    return ops::layer_norm(kernels_, x, weights_of(norm), rows);
  };
  const bool pre = options_.norm == NormPlacement::pre;
  const LayerPass pass{.options = options_, .kernels = kernels_, .training = is_training()};
  for (Layer& layer : layers_) {
    torch::Tensor given;
    x = add_attention(layer, pass, x, real, rows, seen == nullptr ? nullptr : &given);
    if (seen != nullptr) seen->push_back(has_cls() ? given.slice(1, 1) : given);
    if (!pre) x = normed(layer.attention_norm);
    if (options_.feed_forward == 0) continue;
    x = add_feed_forward(layer, pass, x, rows);
    if (!pre) x = normed(layer.feed_forward_norm);
  }
  return x;
}

torch::Tensor Model::classify(const torch::Tensor& rows) {
  const torch::Tensor normed = final_norm_ ? final_norm_->forward(rows) : rows;
  return options_.head == Head::tied ? torch::matmul(normed, tokens_->weight.t())
                                     : classifier_->forward(normed);
}

torch::Tensor Model::forward(const torch::Tensor& tokens, const torch::Tensor& mask,
                             const torch::Tensor& places) {
  const torch::Tensor x = encode(tokens, mask, nullptr);  // [B*inputs,L,D]
  const int64_t batch = tokens.size(0), length = tokens.size(2);
  if (at_positions_) {
    const torch::Tensor rows = x.flatten(0, 1);
    return places.defined() ? classify(rows.index_select(0, places))
                            : classify(rows).view({batch, length, -1});
  }
  const torch::Tensor real = mask.flatten(0, 1);  // [B*inputs,N]
  const auto normed = [&](const torch::Tensor& y) {
    return final_norm_ ? final_norm_->forward(y) : y;
  };
  torch::Tensor pooled;  // [B*inputs,D]
  if (options_.pooling != Pooling::mean) {
    pooled = normed(x.select(1, 0));
  } else if (mean_of_all()) {
    pooled = normed(x).mean(1);
  } else {
    const auto weight = real.unsqueeze(-1).to(x.scalar_type());  // [B*inputs,N,1]
    const auto sum = final_norm_ ? ops::layer_norm_sum(kernels_, x, weights_of(final_norm_), real)
                                 : (x * weight).sum(1);
    pooled = options_.mean_over == MeanOver::length ? sum / static_cast<double>(length)
                                                    : sum / weight.sum(1).clamp_min(1);
  }
  if (inputs_ == 2) {
    const auto both = pooled.reshape({batch, 2, -1});
    const auto a = both.select(1, 0), b = both.select(1, 1);                            // [B,D]
    pooled = options_.pair == PairForm::concat ? torch::cat({a, b}, -1)                 // [B,2D]
                                               : torch::cat({a, b, a * b, a - b}, -1);  // [B,4D]
  }
  return classifier_->forward(pooled);
}

std::vector<std::shared_ptr<Attention>> Model::attentions() const {
  std::vector<std::shared_ptr<Attention>> all;
  for (const Layer& layer : layers_) all.push_back(layer.attention);
  return all;
}

std::vector<torch::Tensor> Model::attention_inputs(const torch::Tensor& tokens,
                                                   const torch::Tensor& mask) {
  std::vector<torch::Tensor> seen;
  encode(tokens, mask, &seen);
  return seen;
}

bool Model::length_invariant() const {
  const bool pooled =
      at_positions_ || options_.pooling != Pooling::mean || options_.mean_over == MeanOver::real;
  return pooled && masked_ && options_.padded_rows == ops::PaddedRows::zero &&
         std::ranges::all_of(
             layers_, [](const Layer& layer) { return layer.attention->length_invariant(); });
}

bool Model::capturable() const {
  // How many positions have a label is known on the host alone.
  if (at_positions_) return false;
  return std::ranges::all_of(layers_,
                             [](const Layer& layer) { return layer.attention->capturable(); });
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

int64_t Model::flops(int64_t batch, int64_t length) const {
  const int64_t rows = batch * inputs_, positions = length + (has_cls() ? 1 : 0);
  int64_t flops = at_positions_ ? 0 : batch * row_flops(classifier_);
  for (const Layer& layer : layers_) {
    const int64_t attention = layer_flops(*layer.attention, rows, positions);
    if (attention < 0) return -1;
    flops += attention + rows * positions * row_flops(layer.feed_forward);
  }
  return flops;
}

}  // namespace lra
