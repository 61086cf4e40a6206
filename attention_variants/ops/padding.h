// How a mask [B,N], true = a token, enters: what stands at padded positions is replaced, never
// multiplied by zero, which would keep NaN and infinity.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// While it lives, `mask` is known on this thread to be true throughout, by who made it: a GPU
/// would have to be waited for to say so. Undefined: nothing is known.
class FullMask {
 public:
  explicit FullMask(torch::Tensor mask);
  ~FullMask();
  FullMask(const FullMask&) = delete;
  FullMask& operator=(const FullMask&) = delete;

  /// Whether `mask` is that one or a view of it. Never on a CPU, whose kernels look for themselves.
  static bool covers(const torch::Tensor& mask);

 private:
  torch::Tensor before_;
};

/// mask [B,N], with the rows that are false throughout made true.
torch::Tensor nonempty_rows(const torch::Tensor& mask);

/// x [B,H,N,d] with the rows of padded positions (mask [B,N] false) zeroed, whatever stood there.
torch::Tensor zero_padding(const torch::Tensor& x, const torch::Tensor& mask);

/// The same for a fresh result that nobody else holds: in place where autograd does not need the
/// old values.
torch::Tensor zero_padded_rows(torch::Tensor fresh, const torch::Tensor& mask);

/// What a query gets where all of its logits are rounded away, as by the -1e10 that some released
/// code adds for every key of a padded query: weights that are equal over all keys, but the
/// gradient of a softmax of q kᵀ / √d there. q [..,M,d], k and v [..,N,d] -> [..,M,d]. O((M + N)
/// d²).
torch::Tensor uniform_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v);

}  // namespace lra::ops
