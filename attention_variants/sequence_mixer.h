// What variants without queries, keys and values have in common: each is its whole layer.
#pragma once

#include "attention_variants/attention.h"
#include "attention_variants/torch.h"

namespace lra {

/// A layer that mixes the positions of a sequence by itself: forward() alone, no attend(). It
/// computes in float32, in float64 where it is given float64.
class SequenceMixer : public Attention {
 public:
  explicit SequenceMixer(const AttentionContext& context) : context_(context) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) final;
  GatedRows forward_gated(const torch::Tensor& x, const torch::Tensor& mask) final;

 protected:
  /// u [B,N,D], zero at padding -> [B,N,D] of the same type, and a gate where it has one. What it
  /// gives at padding is dropped.
  virtual GatedRows mix(const torch::Tensor& u, const torch::Tensor& mask) = 0;

  const AttentionContext context_;
};

}  // namespace lra
