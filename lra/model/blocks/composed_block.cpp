#include "lra/model/blocks/composed_block.h"

#include "lra/model/blocks/rows.h"

namespace lra {

ComposedBlock::ComposedBlock(const ModelOptions& options, std::shared_ptr<Attention> attention)
    : Block(std::move(attention)),
      gated_(options.block == BlockKind::mega),
      attention_norm_(options),
      feed_forward_norm_(options),
      // What runs is the activation of add_feed_forward(): this one has no parameters.
      feed_forward_(make_feed_forward(options, torch::nn::AnyModule(torch::nn::Identity()))) {}

void ComposedBlock::register_in(torch::nn::Module& model, const std::string& prefix) const {
  attention_norm_.register_in(model, prefix + "attention_norm");
  model.register_module(prefix + "attention", attention());
  if (feed_forward_->is_empty()) return;
  feed_forward_norm_.register_in(model, prefix + "feed_forward_norm");
  model.register_module(prefix + "feed_forward", feed_forward_);
}

std::vector<torch::Tensor> ComposedBlock::linear_parameters() const {
  return feed_forward_->parameters();
}

torch::Tensor ComposedBlock::forward(const torch::Tensor& input, const BlockPass& pass,
                                     torch::Tensor* given) const {
  const bool pre = pass.options.norm == NormPlacement::pre;
  const torch::Tensor read = pre ? attention_norm_.forward(input, pass) : input;
  if (given != nullptr) *given = read;
  torch::Tensor x = add_attention(input, read, pass);
  if (!pre) x = attention_norm_.forward(x, pass);
  if (feed_forward_->is_empty()) return x;
  x = add_feed_forward(x, pre ? feed_forward_norm_.forward(x, pass) : x, pass);
  return pre ? x : feed_forward_norm_.forward(x, pass);
}

torch::Tensor ComposedBlock::add_attention(const torch::Tensor& x, const torch::Tensor& normed,
                                           const BlockPass& pass) const {
  const auto [y, gate] = run_attention(*attention(), pass, normed, gated_);
  if (!gate.defined()) return add_dropped(pass, x, y);
  return x + gate * (drop(pass.options, pass.training, y) - x);
}

torch::Tensor ComposedBlock::add_feed_forward(const torch::Tensor& x, const torch::Tensor& normed,
                                              const BlockPass& pass) const {
  const ModelOptions& o = pass.options;
  auto& layers = *feed_forward_.ptr();
  const torch::Tensor in = project(pass, normed, layers.at<torch::nn::LinearImpl>(0));
  const torch::Tensor inner = gated_ ? torch::silu(in) : drop(o, pass.training, gelu(o, in));
  return add_dropped(pass, x, project(pass, inner, layers.at<torch::nn::LinearImpl>(3)));
}

}  // namespace lra
