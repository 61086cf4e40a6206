// Softmax attention of one head of one sample in which a block of queries sees some ranges of keys,
// or a band of them: forward and backward, a block at a time. The keys that a block sees are
// gathered, without those of padding; no more than the scores of a few queries is ever held, and
// the backward pass computes them anew.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/softmax_columns.h"
#include "attention_variants/ops/cpu/kernels/rows/team.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cpu {

using Range = KeyRange;

struct BlockSparseHeadShape {
  int64_t length = 0;  // N
  int64_t depth = 0;   // d of queries and keys
  int64_t values = 0;  // e of values
  float scale = 1;
};

struct BlockSparseHeadInputs {
  ConstMatrix q, k, v;         // [N,d], [N,d], [N,e]
  const bool* mask = nullptr;  // [N]
};

struct BlockSparseHeadGradients {
  Matrix q, k, v;
};

/// The most that a tile of the pattern has at a time.
struct PatternSizes {
  static constexpr int64_t kScores = 64 * 1024;  // 256 KiB
  static constexpr int64_t kLeastRows = 16, kMostRows = 128;

  LRA_INLINE explicit PatternSizes(const SparsityPattern& pattern) {
    for (const SparsityTile& tile : pattern.tiles) {
      int64_t seen = 0;
      for (const Range& range : tile.keys) seen += range.end - range.begin;
      // With padding left out there may be fewer keys, and more rows at a time: kScores bounds
      // those.
      const int64_t queries = least(kMostRows, tile.queries.end - tile.queries.begin);
      keys = most(keys, seen);
      scores = most(scores, least(queries * seen, most(kScores, kLeastRows * seen)));
      rows = most(rows, queries);
    }
  }
  int64_t keys = 0, scores = 0, rows = 0;

 private:
  LRA_INLINE static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  LRA_INLINE static int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }
};

/// The keys that a tile's queries see, their positions, and scores.
struct BlockSparseHeadScratch {
  LRA_INLINE BlockSparseHeadScratch(const BlockSparseHeadShape& shape, const PatternSizes& sizes,
                                    Arena& arena)
      : at(arena.take<int32_t>(sizes.keys)),
        k(arena.matrix(sizes.keys, shape.depth)),
        v(arena.matrix(sizes.keys, shape.values)),
        scores(arena.take(sizes.scores)) {}
  int32_t* at;
  Matrix k, v;  // [keys,d], [keys,e]
  float* scores;
};

/// The same and gradients, and queries and gradients of results without padding, backward.
struct BlockSparseHeadBackwardScratch : BlockSparseHeadScratch {
  LRA_INLINE BlockSparseHeadBackwardScratch(const BlockSparseHeadShape& shape,
                                            const PatternSizes& sizes, Arena& arena)
      : BlockSparseHeadScratch(shape, sizes, arena),
        grad_k(arena.matrix(sizes.keys, shape.depth)),
        grad_v(arena.matrix(sizes.keys, shape.values)),
        grad_scores(arena.take(sizes.scores)),
        along(arena.take(sizes.rows)),
        q(arena.take(sizes.rows * shape.depth)),
        grad(arena.take(sizes.rows * shape.values)) {}
  Matrix grad_k, grad_v;
  float *grad_scores, *along, *q, *grad;
};

/// Of a head, backward: which tiles have added their gradients of keys.
struct BlockSparseHeadTurns {
  LRA_INLINE BlockSparseHeadTurns(const SparsityPattern& pattern, Arena& arena)
      : done(arena.take<int64_t>(static_cast<int64_t>(pattern.tiles.size()))) {}
  int64_t* done;  // [tiles]
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Writes out [N,e], softmax(scale q kᵀ) v over the tokens each query sees, and stats [N].
/// Rows of padding, and of queries that see no token, are zero. An item of the team is a tile, in a
/// BlockSparseHeadScratch.
void block_sparse_forward(const BlockSparseHeadShape& shape, const SparsityPattern& pattern,
                          const BlockSparseHeadInputs& inputs, Matrix out,
                          const SoftmaxStats& stats, const Team& team);

/// Writes all gradients, given out and its gradient: tiles, each in a
/// BlockSparseHeadBackwardScratch, add those of keys one after the other, so that they are the same
/// to the bit on any team.
void block_sparse_backward(const BlockSparseHeadShape& shape, const SparsityPattern& pattern,
                           const BlockSparseHeadInputs& inputs, ConstMatrix out,
                           const SoftmaxStats& stats, ConstMatrix grad_out,
                           const BlockSparseHeadGradients& grad, Arena& arena, const Team& team);

}  // namespace lra::ops::LRA_KERNELS
