// Embeddings of tokens and positions with a dropout, forward and backward.
#pragma once

#include <algorithm>

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// y = dropout([first, tokens[id]] + positions). Rows of tokens where the mask is false are zero,
/// and their gradient is not read. An id that is not in [0,V) gives a row of NaN, and has no
/// gradient.
struct EmbeddingParams {
  Storage storage = Storage::f32;                        // of the tables, y and grad_y
  int batch = 0, length = 0, width = 0, vocabulary = 0;  // B, L, D, V
  const int64_t* ids = nullptr;     // [B,N]; N = L, or L - 1 with a first vector
  const bool* mask = nullptr;       // [B,N]; null: all true
  const void* tokens = nullptr;     // [V,D]
  const void* positions = nullptr;  // [at least L,D]
  bool has_first = false;           // whether the first vector stands before the tokens
  const void* first = nullptr;      // [D]
  DropoutStream dropout;
  void* y = nullptr;  // [B,L,D]

  // Backward.
  const void* grad_y = nullptr;     // [B,L,D]
  float* token_parts = nullptr;     // [embedding_parts(),V,D], sums towards the tokens' gradient
  float* grad_positions = nullptr;  // [L,D]; null: not asked for
  float* grad_first = nullptr;      // [D]; null: not asked for
};

/// The most tokens whose sums a block's shared memory holds, 32 columns of them.
inline constexpr int kMostEmbeddedTokens = 1024;
/// Of shared memory, that the backward pass wants.
inline int64_t embedding_shared_bytes(int64_t vocabulary) { return vocabulary * 32 * 4; }

/// Positions of a part of the tokens' gradient, and how many parts there are.
constexpr int embedding_positions_of_part(int length) {
  constexpr int kFewest = 8, kMostParts = 256;
  return std::max(kFewest, (length + kMostParts - 1) / kMostParts);
}
constexpr int embedding_parts(int length) {
  return (length + embedding_positions_of_part(length) - 1) / embedding_positions_of_part(length);
}

/// Writes y.
void launch_embedding_forward(const EmbeddingParams& params, Stream stream);

/// Writes token_parts, grad_positions and grad_first. V of at most kMostEmbeddedTokens.
void launch_embedding_backward(const EmbeddingParams& params, Stream stream);

}  // namespace lra::ops::cuda
