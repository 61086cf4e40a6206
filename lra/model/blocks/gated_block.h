// The layers of S4 and S5: one residual sum, and after the attention GELU and a gate.
#pragma once

#include "lra/model/blocks/block.h"
#include "lra/model/blocks/norm.h"

namespace lra {

/// With y = attention(norm(x)): x + gate(y), or the norm behind the sum.
///  s4  y goes through a dropout of its own, which is never tied, then Gate::glu
///      (state-spaces/s4, s4block.py and block.py)
///  s5  model.gate (lindermanlab/S5, layers.py)
class GatedBlock : public Block {
 public:
  GatedBlock(const ModelOptions& options, std::shared_ptr<Attention> attention);

  torch::Tensor forward(const torch::Tensor& x, const BlockPass& pass,
                        torch::Tensor* given) const override;
  void register_in(torch::nn::Module& model, const std::string& prefix) const override;
  std::vector<torch::Tensor> linear_parameters() const override;

 private:
  torch::Tensor gated(const torch::Tensor& y, const BlockPass& pass) const;

  bool s4_;
  Gate gate_;
  Norm norm_;
  torch::nn::Linear value_{nullptr}, weight_{nullptr};  // V and W of Gate; empty where it has none
};

}  // namespace lra
