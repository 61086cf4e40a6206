// What blocks are made of: steps over rows [B,L,D].
#pragma once

#include <torch/nn/modules/activation.h>

#include <cstdint>
#include <span>

#include "attention_variants/ops/linear.h"
#include "attention_variants/torch.h"
#include "lra/model/blocks/block.h"

namespace lra {

/// What an attention makes of rows that are normed where the block does so: forward_gated() where
/// `gated`, else forward() and no gate. Outside of autocast where model.attention_dtype says so.
/// Throws Error where a result is not of x's shape.
GatedRows run_attention(Attention& attention, const BlockPass& pass, const torch::Tensor& x,
                        bool gated);

/// Whether attentions leave autocast, and there is one to leave.
bool leaves_autocast(const ModelOptions& options, const torch::Tensor& x);

/// x Wᵀ + b.
torch::Tensor project(const BlockPass& pass, const torch::Tensor& x,
                      const torch::nn::LinearImpl& layer);

/// The dropout of `options`, x [B,L,D].
torch::Tensor drop(const ModelOptions& options, bool training, const torch::Tensor& x);

/// x + dropout(y)
torch::Tensor add_dropped(const BlockPass& pass, const torch::Tensor& x, const torch::Tensor& y);

/// That of `options.gelu`.
torch::Tensor gelu(const ModelOptions& options, const torch::Tensor& x);
torch::nn::GELU gelu_module(const ModelOptions& options);

/// Linear, `activation`, dropout, linear, dropout, as a checkpoint knows them: 0 and 3 have
/// parameters. Empty where options.feed_forward is 0.
torch::nn::Sequential make_feed_forward(const ModelOptions& options,
                                        const torch::nn::AnyModule& activation);

ops::RowNorm weights_of(const torch::nn::LayerNorm& norm);

/// Floating-point operations of one row through linear layers: two a weight.
int64_t row_flops(std::span<const torch::Tensor> parameters);

}  // namespace lra
