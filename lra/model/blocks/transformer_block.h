// The transformer's layer with layer normalisation, in operators that join what stands side by
// side.
#pragma once

#include "lra/model/blocks/block.h"

namespace lra {

/// x + dropout(attention(norm(x))), then x + dropout(W2 dropout(GELU(W1 norm(x)))), or each norm
/// behind its sum. Without a feed-forward block the first alone.
class TransformerBlock : public Block {
 public:
  TransformerBlock(const ModelOptions& options, std::shared_ptr<Attention> attention);

  torch::Tensor forward(const torch::Tensor& x, const BlockPass& pass,
                        torch::Tensor* given) const override;
  void register_in(torch::nn::Module& model, const std::string& prefix) const override;
  std::vector<torch::Tensor> linear_parameters() const override;

 private:
  torch::Tensor add_attention(const torch::Tensor& x, const BlockPass& pass,
                              torch::Tensor* given) const;
  torch::Tensor add_feed_forward(const torch::Tensor& x, const BlockPass& pass) const;
  bool has_feed_forward() const { return !feed_forward_->is_empty(); }

  torch::nn::LayerNorm attention_norm_, feed_forward_norm_;
  torch::nn::Sequential feed_forward_;
};

}  // namespace lra
