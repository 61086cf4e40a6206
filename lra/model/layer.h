// One layer of the model: attention and a feed-forward block, each with a layer normalisation
// before it or after the residual sum.
#pragma once

#include <memory>

#include "attention_variants/attention.h"
#include "attention_variants/torch.h"
#include "lra/config/settings.h"

namespace lra {

/// The parts of a layer. No module of its own: the model registers them, under the names that
/// checkpoints have had from the start.
struct Layer {
  std::shared_ptr<Attention> attention;
  torch::nn::LayerNorm attention_norm{nullptr};
  torch::nn::Sequential feed_forward{nullptr};  // linear, GELU, dropout, linear, dropout
  torch::nn::LayerNorm feed_forward_norm{nullptr};
};

/// How a pass runs, the same for all layers.
struct LayerPass {
  const ModelOptions& options;
  Kernels kernels = Kernels::fused;
  bool training = false;
};

/// Initialises the feed-forward block from torch's global generator.
Layer make_layer(const ModelOptions& options, std::shared_ptr<Attention> attention);

/// x [B,L,D] + dropout(attention(norm(x))), with the norm where it comes before; mask [B,L] bool.
/// Rows where `real` [B,L] (undefined: all true) is false are anything. `given`, where not null,
/// gets what the attention is given.
torch::Tensor add_attention(const Layer& layer, const LayerPass& pass, const torch::Tensor& x,
                            const torch::Tensor& mask, const torch::Tensor& real,
                            torch::Tensor* given);

/// x + dropout(the feed-forward block of norm(x)); likewise.
torch::Tensor add_feed_forward(const Layer& layer, const LayerPass& pass, const torch::Tensor& x,
                               const torch::Tensor& real);

ops::RowNorm weights_of(const torch::nn::LayerNorm& norm);

/// Floating-point operations of one row through the linear layers of a block: two a weight.
int64_t row_flops(const torch::nn::Sequential& layers);

/// Floating-point operations of one forward() of an attention layer on [batch,length,D]: those of
/// attend(), and two a weight of the projections for each position. -1 where the variant has no
/// account.
int64_t layer_flops(const Attention& attention, int64_t batch, int64_t length);

}  // namespace lra
