#include "lra/model/model.h"

#include <algorithm>

#include "attention_variants/ops/padding.h"
#include "attention_variants/registry.h"
#include "lra/model/blocks/rows.h"
#include "lra/model/classifier.h"
#include "lra/model/layer_flops.h"
#include "lra/model/pooling.h"

namespace lra {
namespace {

std::string layer_prefix(size_t number) { return "layer" + std::to_string(number) + "_"; }

// Positions of the longest input, that of the class token among them.
int64_t positions_of(const Settings& settings) {
  return settings.input.length + (settings.model.pooling == Pooling::cls ? 1 : 0);
}

// Of a model that predicts tokens: the embedding's own vectors, or one layer.
torch::nn::Sequential make_token_head(const ModelOptions& options, int64_t vocabulary) {
  if (options.head == Head::tied) return {};
  return torch::nn::Sequential(torch::nn::Linear(options.width, vocabulary));
}

}  // namespace

Model::Model(const Task& task, const Config& config)
    : options_(config.settings.model),
      kernels_(config.settings.kernels),
      inputs_(task.inputs),
      channels_(task.channels),
      length_(config.settings.input.length),
      any_is_padding_(config.settings.input.mask == InputMask::nonzero),
      masked_(config.settings.input.mask != InputMask::none),
      at_positions_(task.position_labels || predicts_tokens(config.settings.training.objective)),
      encoder_(*this, task, options_, positions_of(config.settings),
               config.settings.training.objective == Objective::masked) {
  make_layers(config, positions_of(config.settings));
  if (options_.norm == NormPlacement::pre && options_.block != BlockKind::s5) {
    final_norm_ = Norm(options_);
    final_norm_.register_in(*this, "final_norm");
  }
  classifier_ =
      register_module("classifier", predicts_tokens(config.settings.training.objective)
                                        ? make_token_head(options_, task.vocabulary)
                                        : make_classifier(options_, inputs_, task.classes));
  start_weights(options_.init, layers_, classifier_);
}

void Model::make_layers(const Config& config, int64_t length) {
  const ModelOptions& o = options_;
  const AttentionSpec spec{.name = config.attention.name, .options = config.attention_options};
  const auto shared = std::make_shared<SharedTensors>();
  for (int64_t i = 0; i < o.layers; ++i) {
    // Each layer has its own seed: no random table is shared across layers.
    const AttentionContext context{.width = o.width,
                                   .heads = o.heads,
                                   .head_dim = o.head_dim,
                                   .max_length = length,
                                   .seed = config.seed * 1000003 + static_cast<uint64_t>(i),
                                   .kernels = kernels_,
                                   .padded_rows = o.padded_rows,
                                   .dropout = o.dropout,
                                   .tied_dropout = o.dropout_kind == DropoutKind::tied,
                                   .bias = o.attention_bias,
                                   .layer = i,
                                   .shared = shared,
                                   .causal = o.causal,
                                   .rotary_base = o.rotation()};
    layers_.push_back(make_block(o, make_attention(spec, context)));
    layers_.back()->register_in(*this, layer_prefix(layers_.size() - 1));
  }
}

// Whether anything reads what the layers make of padding.
bool Model::reads_padding() const {
  if (options_.padding == Padding::counted) return false;  // there is none
  const bool pooled = options_.pooling == Pooling::cls ? options_.cls_mask == ClsMask::first_token
                                                       : options_.pooling != Pooling::mean;
  const bool counted =
      options_.norm_kind == NormKind::batch && options_.batch_statistics == BatchStatistics::all;
  return options_.padded_rows == ops::PaddedRows::uniform || mean_of_all(options_) || counted ||
         (pooled && any_is_padding_) || std::ranges::any_of(layers_, [](const auto& layer) {
           return layer->attention()->reads_padding();
         });
}

// Observers see the parts of the model as scopes: what lra profile --where names them by.
Model::Encoded Model::encode(const torch::Tensor& tokens, const torch::Tensor& mask,
                             std::vector<torch::Tensor>* seen) {
  const int64_t sequences = inputs_ * channels_;
  TORCH_CHECK(tokens.dim() == 3 && tokens.size(1) == sequences && mask.sizes() == tokens.sizes(),
              "tokens and mask should be [B,", sequences, ",N], not ", tokens.sizes(), " and ",
              mask.sizes());
  TORCH_CHECK(tokens.size(2) <= length_, "the model reads at most ", length_, " tokens, not ",
              tokens.size(2));
  const bool counted = options_.padding == Padding::counted, reads = reads_padding(),
             all_rows = reads || counted || ops::FullMask::covers(mask);
  const auto without = [&](const torch::Tensor& rows) { return all_rows ? torch::Tensor() : rows; };
  auto real = mask_of_inputs(mask);
  if (counted) real = torch::ones_like(real);
  const torch::Tensor ids =
      channels_ == 1
          ? tokens.flatten(0, 1)
          : tokens.unflatten(1, {inputs_, channels_}).flatten(0, 1).transpose(1, 2);  // [..,N,C]
  torch::Tensor x;  // [B*inputs,L,D]
  {
    RECORD_USER_SCOPE("embedding");
    x = encoder_.forward(kernels_, ids, without(real), is_training());
  }
  if (encoder_.has_cls()) {
    const torch::Tensor first = real.narrow(1, 0, 1);
    real = torch::cat(
        {options_.cls_mask == ClsMask::first_token ? first : torch::ones_like(first), real}, 1);
  }
  const BlockPass pass{.options = options_,
                       .kernels = kernels_,
                       .training = is_training(),
                       .mask = real,
                       .real = without(real),
                       .reads_padding = reads};
  for (size_t i = 0; i < layers_.size(); ++i) {
    RECORD_USER_SCOPE("layer " + std::to_string(i + 1));
    torch::Tensor given;
    x = layers_[i]->forward(x, pass, seen == nullptr ? nullptr : &given);
    if (seen != nullptr) seen->push_back(encoder_.has_cls() ? given.slice(1, 1) : given);
  }
  return {.x = x, .pass = pass};
}

torch::Tensor Model::mask_of_inputs(const torch::Tensor& mask) const {
  if (channels_ == 1) return mask.flatten(0, 1);
  return mask.unflatten(1, {inputs_, channels_}).select(2, 0).flatten(0, 1);
}

torch::Tensor Model::classify(const Encoded& encoded, const torch::Tensor& places) {
  torch::Tensor x = encoded.x;
  const auto normed = [this](const torch::Tensor& rows, const BlockPass& pass) {
    return final_norm_.exists() ? final_norm_.forward(rows, pass) : rows;
  };
  // A norm over a batch counts all of its rows.
  const bool whole = !places.defined() || options_.norm_kind == NormKind::batch;
  if (whole) x = normed(x, encoded.pass);
  if (encoder_.has_cls()) x = x.slice(1, 1);
  if (places.defined()) x = x.flatten(0, 1).index_select(0, places).unsqueeze(0);  // [1,L,D]
  if (!whole) {
    BlockPass all = encoded.pass;
    all.real = torch::Tensor();
    x = normed(x, all);
  }
  const torch::Tensor logits = options_.head == Head::tied
                                   ? torch::matmul(x, encoder_.token_vectors().t())
                                   : classifier_->forward(x);
  return places.defined() ? logits.squeeze(0) : logits;
}

torch::Tensor Model::forward(const torch::Tensor& tokens, const torch::Tensor& mask,
                             const torch::Tensor& places) {
  const Encoded encoded = encode(tokens, mask, nullptr);
  RECORD_USER_SCOPE("head");
  if (at_positions_) return classify(encoded, places);
  torch::Tensor pooled =
      pool(encoded.x, mask_of_inputs(mask), final_norm_, encoded.pass);  // [B*inputs,D]
  if (inputs_ == 2) pooled = join_pair(pooled, options_.pair);
  return classifier_->forward(pooled);
}

std::vector<std::shared_ptr<Attention>> Model::attentions() const {
  std::vector<std::shared_ptr<Attention>> all;
  for (const auto& layer : layers_) all.push_back(layer->attention());
  return all;
}

std::vector<torch::Tensor> Model::attention_inputs(const torch::Tensor& tokens,
                                                   const torch::Tensor& mask) {
  std::vector<torch::Tensor> seen;
  encode(tokens, mask, &seen);
  return seen;
}

std::vector<std::string> Model::slow_parameters() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const std::string& own : layers_[i]->attention()->slow_parameters())
      names.push_back(layer_prefix(i) + "attention." + own);
  }
  return names;
}

bool Model::length_invariant() const {
  // Of a sample that is padding throughout the greatest is of all its positions.
  const bool pooled =
      at_positions_ || (options_.pooling == Pooling::max    ? !any_is_padding_
                        : options_.pooling == Pooling::mean ? options_.mean_over == MeanOver::real
                                                            : true);
  return pooled && masked_ && options_.padding == Padding::masked &&
         options_.padded_rows == ops::PaddedRows::zero &&
         std::ranges::all_of(
             layers_, [](const auto& layer) { return layer->attention()->length_invariant(); });
}

bool Model::sees_all() const {
  const int64_t length = length_ + (encoder_.has_cls() ? 1 : 0);
  return std::ranges::all_of(
      layers_, [length](const auto& layer) { return layer->attention()->sees_all(length); });
}

bool Model::capturable() const {
  // How many positions have a label is known on the host alone.
  if (at_positions_) return false;
  return std::ranges::all_of(layers_,
                             [](const auto& layer) { return layer->attention()->capturable(); });
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters()) count += parameter.numel();
  return count;
}

int64_t Model::flops(int64_t batch, int64_t length, int64_t labels) const {
  const int64_t rows = batch * inputs_, positions = length + (encoder_.has_cls() ? 1 : 0);
  const bool tied = at_positions_ && options_.head == Head::tied;
  const auto head = tied ? std::vector{encoder_.token_vectors()} : classifier_->parameters();
  int64_t flops = (at_positions_ ? labels : batch) * row_flops(head);
  for (const auto& layer : layers_) {
    const int64_t attention = layer_flops(*layer->attention(), rows, positions);
    if (attention < 0) return -1;
    flops += attention + rows * positions * row_flops(layer->linear_parameters());
  }
  return flops;
}

}  // namespace lra
