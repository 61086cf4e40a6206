// Softmax attention in which tiles of queries see lists of keys, forward and backward.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cuda/kernels/rows/head_rows.h"
#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// Up to kTileRows queries [begin, end) and where in PatternPlan::keys theirs stand; all of them
/// see the first `unbounded`.
struct QueryTile {
  int32_t begin, end, first, count, unbounded;
};

/// Up to kTileRows keys that the same queries see: where they stand in PatternPlan::positions, and
/// these queries in PatternPlan::parts.
struct KeyTile {
  int32_t first, count, first_part, parts;
};

/// Up to kTileColumns queries [begin, end) that see a tile's keys, within the bounds or all of
/// them.
struct QueryPart {
  int32_t begin, end, bounded;
};

/// Which tiles are a head's. A bounded query i sees keys i - before to i + after.
struct PatternHead {
  int32_t before, after, first_query_tile, query_tiles, first_key_tile, key_tiles;
};

/// On the device. Keys that are seen twice count twice.
struct PatternPlan {
  const PatternHead* heads;  // [patterns]
  const QueryTile* query_tiles;
  const int32_t* keys;
  const KeyTile* key_tiles;
  const int32_t* positions;
  const QueryPart* parts;
  int patterns;                          // one a head, or one for all
  int most_query_tiles, most_key_tiles;  // of a head
};

struct BlockSparseParams {
  Storage storage;
  int batch, heads, length, depth;  // B, H, N, d <= 128
  float scale;                      // of q kᵀ
  PatternPlan plan;
  Heads q, k, v;         // [B,H,N,d]
  const bool* mask;      // [B,N]; null: all are tokens
  MutableHeads out;      // [B,H,N,d]
  float *top, *inverse;  // [B,H,N]: a weight is exp(score - top) inverse
  float* along;          // [B,H,N], scratch of the backward pass
  Heads grad_out;        // [B,H,N,d]
  MutableHeads grad_q, grad_k, grad_v;
};

/// Writes out, top and inverse. Rows of padding, and of queries that see no token, are zero.
void launch_block_sparse_forward(const BlockSparseParams& params, Stream stream);

/// Given these and grad_out, writes grad_q, grad_k and grad_v.
void launch_block_sparse_backward(const BlockSparseParams& params, Stream stream);

}  // namespace lra::ops::cuda
