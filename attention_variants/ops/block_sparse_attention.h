// Softmax attention over a pattern of keys.
#pragma once

#include <functional>
#include <vector>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Of each head, or one for all.
using Patterns = std::vector<SparsityPattern>;

struct BlockSparseShape {
  int64_t batch = 0, heads = 0, length = 0, head_dim = 0, element_size = 4;
  std::function<Patterns()> patterns;  // made where an implementation reads them
  std::function<int64_t()> fallback_bytes;
};

/// softmax(q kᵀ / √d) v over the tokens that each query sees by the pattern: q, k, v [B,H,N,d],
/// mask [B,N] bool -> [B,H,N,d]; rows of padding, and of queries that see no token, are zero. The
/// formula of LibTorch's operators that suits the pattern is the caller's, and what kernels are
/// compared with. The own kernel is differentiable once.
struct BlockSparseCall {
  using Result = torch::Tensor;
  using Shape = BlockSparseShape;
  torch::Tensor q, k, v, mask;
  std::function<Patterns()> patterns;
  std::function<torch::Tensor()> fallback;

  Shape shape() const {
    return {.batch = q.size(0),
            .heads = q.size(1),
            .length = q.size(2),
            .head_dim = q.size(3),
            .element_size = q.element_size(),
            .patterns = patterns,
            .fallback_bytes = {}};
  }
};

/// Pairs of a query and a key that the tiles of a pattern multiply; those that bounds hide are
/// among them.
inline int64_t pair_count(const SparsityPattern& pattern) {
  int64_t pairs = 0;
  for (const SparsityTile& tile : pattern.tiles) {
    for (const KeyRange& range : tile.keys)
      pairs += (tile.queries.end - tile.queries.begin) * (range.end - range.begin);
  }
  return pairs;
}

/// Of the products of those pairs, in all heads.
inline int64_t block_sparse_attention_flops(const BlockSparseShape& shape) {
  const Patterns patterns = shape.patterns();
  int64_t pairs = 0;
  for (const SparsityPattern& one : patterns) pairs += pair_count(one);
  const int64_t of_all = patterns.size() == 1 ? shape.heads : 1;
  return 4 * shape.batch * of_all * pairs * shape.head_dim;
}

torch::Tensor block_sparse_attention(Kernels asked, const BlockSparseCall& call);

/// Bytes above the inputs without gradients, the result among them.
int64_t block_sparse_attention_bytes(Kernels asked, const BlockSparseShape& shape);

}  // namespace lra::ops
