#include "lra/model.h"

#include <ATen/autocast_mode.h>

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

Model::Model(const Task& task, const Config& config)
    : options_(config.settings.model), inputs_(task.inputs) {
  namespace nn = torch::nn;
  const ModelOptions& o = options_;
  const int64_t length = config.settings.input.length;
  tokens_ = register_module("tokens", nn::Embedding(task.vocabulary, o.width));
  positions_ = register_module("positions", nn::Embedding(length, o.width));
  dropout_ = register_module("dropout", nn::Dropout(o.dropout));
  torch::nn::init::normal_(tokens_->weight, 0.0, o.embedding_sd);
  torch::nn::init::normal_(positions_->weight, 0.0, o.embedding_sd);
  const nn::LayerNormOptions norm({o.width});
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + "_";
    // Each layer has its own seed: no random table is shared across layers.
    const AttentionContext context{.width = o.width,
                                   .heads = o.heads,
                                   .head_dim = o.head_dim,
                                   .max_length = length,
                                   .seed = config.seed * 1000003 + static_cast<uint64_t>(i)};
    attention_norms_.push_back(register_module(layer + "attention_norm", nn::LayerNorm(norm)));
    const AttentionSpec spec{.name = config.attention.name, .options = config.attention_options};
    attentions_.push_back(register_module(layer + "attention", make_attention(spec, context)));
    feed_forward_norms_.push_back(
        register_module(layer + "feed_forward_norm", nn::LayerNorm(norm)));
    feed_forwards_.push_back(register_module(
        layer + "feed_forward",
        nn::Sequential(nn::Linear(o.width, o.feed_forward), nn::GELU(), nn::Dropout(o.dropout),
                       nn::Linear(o.feed_forward, o.width), nn::Dropout(o.dropout))));
  }
  final_norm_ = register_module("final_norm", nn::LayerNorm(norm));
  const int64_t features = inputs_ == 1 ? o.width : 4 * o.width;
  classifier_ =
      register_module("classifier", nn::Sequential(nn::Linear(features, o.classifier), nn::ReLU(),
                                                   nn::Linear(o.classifier, task.classes)));
}

torch::Tensor Model::attention(Attention& layer, const torch::Tensor& x,
                               const torch::Tensor& mask) const {
  if (options_.attention_dtype == "float32") {
    const WithoutAutocast guard(x.device().type());
    return layer.forward(x.to(torch::kFloat32), mask);
  }
  return layer.forward(x, mask);
}

torch::Tensor Model::encode(const torch::Tensor& tokens, const torch::Tensor& mask,
                            std::vector<torch::Tensor>* seen) {
  TORCH_CHECK(tokens.dim() == 3 && tokens.size(1) == inputs_ && mask.sizes() == tokens.sizes(),
              "tokens and mask should be [B,", inputs_, ",N], not ", tokens.sizes(), " and ",
              mask.sizes());
  const auto ids = tokens.flatten(0, 1), real = mask.flatten(0, 1);  // [B*inputs,N]
  auto x =
      tokens_->forward(ids) + positions_->weight.slice(0, 0, tokens.size(2));  // [B*inputs,N,D]
  x = dropout_->forward(x);
  for (size_t i = 0; i < attentions_.size(); ++i) {
    {
      const torch::Tensor normed = attention_norms_[i]->forward(x);
      if (seen != nullptr) seen->push_back(normed);
      x = x + dropout_->forward(attention(*attentions_[i], normed, real));
    }
    x = x + feed_forwards_[i]->forward(feed_forward_norms_[i]->forward(x));
  }
  return x;
}

torch::Tensor Model::forward(const torch::Tensor& tokens, const torch::Tensor& mask) {
  const torch::Tensor x = encode(tokens, mask, nullptr);  // [B*inputs,N,D]
  const int64_t batch = tokens.size(0), length = tokens.size(2);
  const auto weight = mask.flatten(0, 1).unsqueeze(-1).to(x.scalar_type());  // [B*inputs,N,1]
  const auto sum = (final_norm_->forward(x) * weight).sum(1);                // [B*inputs,D]
  auto pooled = options_.mean_over == "length" ? sum / static_cast<double>(length)
                                               : sum / weight.sum(1).clamp_min(1);
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

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

}  // namespace lra
