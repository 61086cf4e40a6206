// Hashed and sorted tokens cut into chunks: which positions a chunk asks for and sees.
#pragma once

#include "attention_variants/ops/lsh_attention.h"
#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// Chunks that a chunk sees, its own among them.
int64_t lsh_slots(const LshOptions& settings);

/// m (sample, head) pairs, their sorted rounds cut into C = R·L/c chunks with w = slots·c keys
/// each.
class LshSlab {
 public:
  /// order [m,R,L]: which position stands where in each sorted round.
  LshSlab(const torch::Tensor& order, const LshOptions& settings);

  /// x [m,L,d] -> the chunks' queries [m·C,c,d].
  torch::Tensor queries(const torch::Tensor& x) const { return rows(x, query_rows_, chunk_); }
  /// x [m,L,d] -> the chunks' keys [m·C,w,d].
  torch::Tensor keys(const torch::Tensor& x) const { return rows(x, key_rows_, keys_.size(2)); }

  /// Chunks' queries [m·C,c,d] -> [m,R,L,d], every round in the order of positions.
  torch::Tensor unsort(const torch::Tensor& x) const;

  /// The inverse of unsort: [m,R,L,d] -> [m,R·L,d], in the order of the chunks.
  torch::Tensor sort(const torch::Tensor& x) const;

  /// Chunks' keys [m·C,w,d] -> [m,R,L,d]: what a token has as a key of several chunks is summed.
  torch::Tensor fold(const torch::Tensor& x) const;

  /// Sets `scores` [m·C,c,w] of tokens with themselves.
  void fill_self(torch::Tensor& scores, double value) const;

 private:
  torch::Tensor rows(const torch::Tensor& x, const torch::Tensor& index, int64_t size) const;

  int64_t pairs_, rounds_, length_, chunks_, chunk_, before_, slots_;
  torch::Tensor queries_, keys_;  // positions [m,C,c], [m,C,w]
  torch::Tensor query_rows_, key_rows_, sorted_rows_, unsorted_rows_;
};

}  // namespace lra::ops::reference
