// What the model reads of tokens and positions, as one operator on CPUs.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// The tables of an embedding: tokens [V,D], positions [at least N,D] (learned, or fixed).
struct EmbeddingTables {
  torch::Tensor tokens, positions;
};

/// philox_dropout(tokens[id] + positions[n]) for ids [B,N] int64 on a CPU -> [B,N,D] float32, in
/// one pass; each thread adds up gradients for itself. Rows where mask [B,N] (undefined: all true)
/// is false are anything finite, and their gradient should be zero. Throws c10::Error where an id
/// is not in [0, V). Differentiable once.
torch::Tensor embed(const torch::Tensor& ids, const EmbeddingTables& tables, double dropout,
                    bool training, const torch::Tensor& mask = {});

}  // namespace lra::ops
