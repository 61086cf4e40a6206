// The transformer's layer with any norm and dropout, and Mega's, in single steps.
#pragma once

#include "lra/model/blocks/block.h"
#include "lra/model/blocks/norm.h"

namespace lra {

/// The sums of TransformerBlock. Of BlockKind::mega the first is x + gate (dropout(y) - x) with the
/// attention's y and gate (Attention::forward_gated), and SiLU stands in place of GELU and of the
/// dropout behind it.
class ComposedBlock : public Block {
 public:
  ComposedBlock(const ModelOptions& options, std::shared_ptr<Attention> attention);

  torch::Tensor forward(const torch::Tensor& x, const BlockPass& pass,
                        torch::Tensor* given) const override;
  void register_in(torch::nn::Module& model, const std::string& prefix) const override;
  std::vector<torch::Tensor> linear_parameters() const override;

 private:
  torch::Tensor add_attention(const torch::Tensor& x, const torch::Tensor& normed,
                              const BlockPass& pass) const;
  torch::Tensor add_feed_forward(const torch::Tensor& x, const torch::Tensor& normed,
                                 const BlockPass& pass) const;

  bool gated_;  // Mega's
  Norm attention_norm_, feed_forward_norm_;
  torch::nn::Sequential feed_forward_;
};

}  // namespace lra
