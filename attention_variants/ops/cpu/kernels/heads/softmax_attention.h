// Softmax attention of one head of one sample, forward and backward, a tile of queries and a tile
// of keys at a time; keys and values of a head stay in a core's cache. After FlashAttention (Dao et
// al., NeurIPS 2022) and Rabe & Staats (2021): sums run along, nothing of N x N is stored.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/heads/softmax_tiles.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/team.h"

namespace lra::ops::cpu {

struct SoftmaxShape {
  int64_t queries = 0;  // M
  int64_t keys = 0;     // N
  int64_t depth = 0;    // d of queries and keys
  int64_t values = 0;   // e of values
  float scale = 1;
};

struct SoftmaxInputs {
  ConstMatrix q, k, v;               // [M,d], [N,d], [N,e]
  const bool* key_mask = nullptr;    // [N]; null = all are seen
  const bool* query_mask = nullptr;  // [M]; null = all ask; the results of the others are zero
  WeightDropout dropout = {};        // each tile of queries has a block for every key
  LeadBias bias = {};                // of query c and key t
};

/// Queries a tile; forward tiles are independent.
inline constexpr int64_t kQueryTile = 128;
static_assert(kQueryTile == kDropoutBlock);

/// Of keys at least, where threads share a head: a range is of whole tiles where there are enough.
inline constexpr int64_t kLeastKeys = 64;

struct SoftmaxGradients {
  Matrix q, k, v;
};

/// Whether keys and values are copied side by side, those of padding zero, before tiles of queries
/// read them: where padding stands among them, or where rows lie apart and several tiles would read
/// them there.
enum class KeyCopies { no, yes };

/// Keys and values as tiles read them, where they are copied.
struct KeyScratch {
  LRA_INLINE KeyScratch(const SoftmaxShape& shape, KeyCopies copies, Arena& arena)
      : k(copies == KeyCopies::yes ? arena.take(shape.keys * shape.depth) : nullptr),
        v(copies == KeyCopies::yes ? arena.take(shape.keys * shape.values) : nullptr) {}
  float *k, *v;
};

/// The same, their gradients, and how many tiles of queries each range of keys has done.
struct SoftmaxBackwardScratch {
  LRA_INLINE SoftmaxBackwardScratch(const SoftmaxShape& shape, KeyCopies copies, int64_t parts,
                                    Arena& arena)
      : keys(shape, copies, arena), grads(shape, copies, arena), done(arena.take<int64_t>(parts)) {}
  KeyScratch keys, grads;
  int64_t* done;
};

/// A tile's queries, and backward the gradient of its results, without those that do not ask.
struct SoftmaxPartScratch {
  LRA_INLINE SoftmaxPartScratch(const SoftmaxShape& shape, Pass pass, Arena& arena)
      : q(arena.take(kQueryTile * shape.depth)),
        grad(pass == Pass::backward ? arena.take(kQueryTile * shape.values) : nullptr) {
    const Arena::Frame frame(arena);
    SmallAttentionScratch({.few = shape.queries < kQueryTile ? shape.queries : kQueryTile,
                           .depth = shape.depth,
                           .values = shape.values},
                          pass, arena);
  }
  float *q, *grad;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Copies keys and values up to the last token, those of padding zero: `inputs` has the copies
/// then.
void copy_keys(const SoftmaxShape& shape, SoftmaxInputs& inputs, const KeyScratch& copies);

/// Writes out [kQueryTile,e], the rows of queries from `begin` on, and theirs of stats [M], of
/// scores times log2 e. Keys and values of padding should be finite. Takes SoftmaxPartScratch.
void softmax_forward(const SoftmaxShape& shape, const SoftmaxInputs& inputs, int64_t begin,
                     Matrix out, const SoftmaxStats& stats, Arena& arena);

/// Writes all gradients of a head: the same ones whatever the parts are, where each has a tile of
/// keys. With a bias there is one part. Takes SoftmaxBackwardScratch of `arena`, and of the team's
/// SoftmaxPartScratch.
void softmax_backward(const SoftmaxShape& shape, const SoftmaxInputs& inputs, ConstMatrix out,
                      const SoftmaxStats& stats, ConstMatrix grad_out, const SoftmaxGradients& grad,
                      KeyCopies copies, Arena& arena, const Team& team);

}  // namespace lra::ops::LRA_KERNELS
