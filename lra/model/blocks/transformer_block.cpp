#include "lra/model/blocks/transformer_block.h"

#include "attention_variants/ops/feed_forward.h"
#include "attention_variants/ops/layer_norm.h"
#include "lra/model/blocks/rows.h"

namespace lra {
namespace {

torch::nn::LayerNorm layer_norm_of(const ModelOptions& options) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width}).eps(options.norm_eps));
}

}  // namespace

TransformerBlock::TransformerBlock(const ModelOptions& options,
                                   std::shared_ptr<Attention> attention)
    : Block(std::move(attention)),
      attention_norm_(layer_norm_of(options)),
      feed_forward_norm_(layer_norm_of(options)),
      feed_forward_(make_feed_forward(options, torch::nn::AnyModule(gelu_module(options)))) {}

void TransformerBlock::register_in(torch::nn::Module& model, const std::string& prefix) const {
  model.register_module(prefix + "attention_norm", attention_norm_);
  model.register_module(prefix + "attention", attention());
  if (!has_feed_forward()) return;
  model.register_module(prefix + "feed_forward_norm", feed_forward_norm_);
  model.register_module(prefix + "feed_forward", feed_forward_);
}

std::vector<torch::Tensor> TransformerBlock::linear_parameters() const {
  return feed_forward_->parameters();
}

torch::Tensor TransformerBlock::forward(const torch::Tensor& input, const BlockPass& pass,
                                        torch::Tensor* given) const {
  const bool post = pass.options.norm == NormPlacement::post;
  const auto normed = [&](const torch::Tensor& y, const torch::nn::LayerNorm& norm) {
    return ops::layer_norm(pass.kernels, y, weights_of(norm), pass.real);
  };
  torch::Tensor x = add_attention(input, pass, given);
  if (post) x = normed(x, attention_norm_);
  if (!has_feed_forward()) return x;
  x = add_feed_forward(x, pass);
  return post ? normed(x, feed_forward_norm_) : x;
}

torch::Tensor TransformerBlock::add_attention(const torch::Tensor& x, const BlockPass& pass,
                                              torch::Tensor* given) const {
  const ModelOptions& o = pass.options;
  const bool normed = o.norm == NormPlacement::pre;
  Attention& attention = *this->attention();
  const ops::RowNorm norm = weights_of(attention_norm_);
  // Joined to the residual, a padded row of the attention is the output's bias and not zero, and
  // passes no gradient on.
  const bool joins = !pass.reads_padding || o.padded_rows == ops::PaddedRows::uniform;
  if (joins && !attention.reads_padding() && !leaves_autocast(o, x) && given == nullptr) {
    NormedInput rows{.x = x, .norm = normed ? &norm : nullptr};
    const auto [joined, output] = attention.attend_unprojected(rows, pass.mask);
    if (joined.defined()) {
      return ops::add_projected(pass.kernels, rows.x, joined, output, o.dropout, pass.training,
                                pass.real);
    }
  }
  const torch::Tensor read = normed ? ops::layer_norm(pass.kernels, x, norm, pass.real) : x;
  if (given != nullptr) *given = read;
  const torch::Tensor y = run_attention(attention, pass, read, /*gated=*/false).y;
  return ops::add_dropped_out(pass.kernels, x, y, o.dropout, pass.training, pass.real);
}

torch::Tensor TransformerBlock::add_feed_forward(const torch::Tensor& x,
                                                 const BlockPass& pass) const {
  namespace nn = torch::nn;
  const nn::LayerNorm& norm = feed_forward_norm_;
  const bool normed = pass.options.norm == NormPlacement::pre;
  auto& layers = *feed_forward_.ptr();
  const auto& in = layers.at<nn::LinearImpl>(0);
  const auto& out = layers.at<nn::LinearImpl>(3);
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
                           pass.options.dropout, pass.training, pass.real);
}

}  // namespace lra
