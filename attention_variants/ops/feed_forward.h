// The feed-forward block of the model as one operator on CPUs.
#pragma once

#include "attention_variants/ops/linear.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Parameters of a block of width D and feed-forward width F.
struct FeedForwardWeights {
  torch::Tensor norm_weight, norm_bias;  // [D]; [0] where the block has no norm of its own
  torch::Tensor in_weight, in_bias;      // [F,D], [F]
  torch::Tensor out_weight, out_bias;    // [D,F], [D]
  double norm_eps = 1e-5;
};

/// x + dropout(W2 dropout(GELU(W1 norm(x) + b1)) + b2) for x [...,D], float32 on a CPU: the same
/// numbers are dropped as by philox_dropout() in that order. A tile of rows at a time, so that
/// nothing of width F is ever stored; the backward pass computes it anew. Rows where mask [...]
/// (undefined: all true) is false are anything finite. Differentiable once.
torch::Tensor feed_forward(const torch::Tensor& x, const FeedForwardWeights& weights,
                           double dropout, bool training, const torch::Tensor& mask = {});

/// x + philox_dropout(y Wᵀ + b), x [...,D], y [...,E], weight [D,E], float32 on a CPU. Rows where
/// mask [...] (undefined: all true) is false are anything finite. Differentiable once.
torch::Tensor add_projected(const torch::Tensor& x, const torch::Tensor& y,
                            const LinearWeights& layer, double dropout, bool training,
                            const torch::Tensor& mask = {});

/// x + philox_dropout(y), x and y [...,D], float32 on a CPU. Rows where mask [...] (undefined: all
/// true) is false are anything finite. Differentiable once.
torch::Tensor add_dropped_out(const torch::Tensor& x, const torch::Tensor& y, double dropout,
                              bool training, const torch::Tensor& mask = {});

}  // namespace lra::ops
