// What the model reads of tokens and positions.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// The tables of an embedding: tokens [V,D], positions [at least L,D] (learned, or fixed), and the
/// vector [D] that stands before the tokens (undefined: none).
struct EmbeddingTables {
  torch::Tensor tokens, positions;
  torch::Tensor first = {};
};

struct EmbeddingShape {
  double dropout = 0;
  bool first = false;      // whether a vector stands before the tokens
  int64_t vocabulary = 0;  // V
};

struct EmbeddingCall {
  using Result = torch::Tensor;
  using Shape = EmbeddingShape;
  torch::Tensor ids;
  EmbeddingTables tables;
  double dropout = 0;
  bool training = false;
  torch::Tensor mask;
};

/// philox_dropout([first, tokens[id]] + positions) for ids [B,N] int64 -> [B,L,D], L = N, or N + 1
/// with a first vector. The own kernels are one pass, each thread adding up gradients for itself,
/// and differentiable once. Where an id is not in [0, V) they throw c10::Error on a CPU; on a GPU,
/// whose answer nobody waits for, its row is NaN. Rows where mask [B,N] (undefined: all true) is
/// false are anything finite, and their gradient should be zero.
torch::Tensor embed(Kernels asked, const torch::Tensor& ids, const EmbeddingTables& tables,
                    double dropout, bool training, const torch::Tensor& mask = {});

}  // namespace lra::ops
