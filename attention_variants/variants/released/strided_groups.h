// Sequences reshaped to [block, groups], as LRA's released models cut them: position p is in group
// p mod groups, at slot p / groups. Their masks are cut in runs all the same.
#pragma once

#include "attention_variants/torch.h"

namespace lra::released {

class StridedGroups {
 public:
  /// `whole` positions, a multiple of `block`.
  StridedGroups(int64_t whole, int64_t block)
      : whole_(whole), block_(block), count_(whole / block) {}

  /// x [B,H,N,d] -> [B,H,groups,block,d], zeros appended up to `whole`.
  torch::Tensor split(const torch::Tensor& x) const;

  /// mask [B,N] -> [B,1,groups,block]: slot s of group g has bit g block + s; those appended are
  /// true.
  torch::Tensor mask(const torch::Tensor& mask) const;

  /// The inverse of split(), [B,H,groups,block,d] -> [B,H,length,d].
  torch::Tensor join(const torch::Tensor& groups, int64_t length) const;

 private:
  int64_t whole_, block_, count_;
};

/// softmax(q kᵀ / √d) v of q [..,M,d], k and v [..,N,d] over the keys that `seen` [..,M,N] marks,
/// uniform over all N for a query that sees none (ops::uniform_attention()). A dropout of weights
/// in training, on a CPU by ops::philox_dropout().
torch::Tensor masked_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& seen, double dropout,
                               bool training);

}  // namespace lra::released
