// The norm of a block, of model.norm_kind.
#pragma once

#include <memory>
#include <string>

#include "attention_variants/torch.h"
#include "lra/model/blocks/block.h"

namespace lra {

/// (x - mean) / sqrt(variance + eps) * weight + bias of each channel. In training mean and variance
/// are those of the rows that count (BatchStatistics), and go into the running ones with
/// model.batch_momentum, the variance as the unbiased one; in evaluation they are the running ones.
/// So the output of a sample depends in training on the other samples of its batch.
class BatchNormImpl : public torch::nn::Module {
 public:
  explicit BatchNormImpl(const ModelOptions& options);
  torch::Tensor forward(const torch::Tensor& x, const BlockPass& pass);

 private:
  torch::Tensor counted_apart(const torch::Tensor& x, const torch::Tensor& counts);

  double eps_, momentum_;
  torch::Tensor weight_, bias_, running_mean_, running_var_;  // [D]
};
TORCH_MODULE(BatchNorm);

/// g x / sqrt(mean over D of x² + eps), g one number, 1 at the start (mega, scale_norm.py).
class ScaleNormImpl : public torch::nn::Module {
 public:
  explicit ScaleNormImpl(double eps);
  torch::Tensor forward(const torch::Tensor& x) const;

 private:
  double eps_;
  torch::Tensor scale_;  // [1]
};
TORCH_MODULE(ScaleNorm);

class Norm {
 public:
  /// None.
  Norm() = default;
  explicit Norm(const ModelOptions& options);

  void register_in(torch::nn::Module& model, const std::string& name) const;

  /// x [B,L,D], and those rows of it that pass.real names, normalised.
  torch::Tensor forward(const torch::Tensor& x, const BlockPass& pass) const;

  bool exists() const { return layer_ || batch_ || scale_; }

  /// That of NormKind::layer, for operators that know it; else empty.
  const torch::nn::LayerNorm& layer() const { return layer_; }

 private:
  torch::nn::LayerNorm layer_{nullptr};
  BatchNorm batch_{nullptr};
  ScaleNorm scale_{nullptr};
};

}  // namespace lra
