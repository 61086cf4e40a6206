#include "attention_variants/variants/released/strided_groups.h"

#include <cmath>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/reference/blocks.h"

namespace lra::released {

torch::Tensor StridedGroups::split(const torch::Tensor& x) const {
  const int64_t missing = whole_ - x.size(2);
  const torch::Tensor all = missing == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, missing});
  return all.reshape({x.size(0), x.size(1), block_, count_, x.size(3)}).transpose(2, 3);
}

torch::Tensor StridedGroups::mask(const torch::Tensor& mask) const {
  return at::constant_pad_nd(mask, {0, whole_ - mask.size(1)}, true)
      .view({mask.size(0), 1, count_, block_});
}

torch::Tensor StridedGroups::join(const torch::Tensor& groups, int64_t length) const {
  return groups.transpose(2, 3)
      .reshape({groups.size(0), groups.size(1), whole_, groups.size(4)})
      .narrow(2, 0, length);
}

torch::Tensor masked_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& seen, double dropout,
                               bool training) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const auto type = ops::wide_type(q.scalar_type());
  const torch::Tensor logits = torch::matmul(q * scale, k.transpose(-2, -1)).to(type);
  // Equal logits that keep the gradient, where nothing is seen.
  const torch::Tensor scores =
      torch::where(seen.any(-1, /*keepdim=*/true),
                   logits.masked_fill(seen.logical_not(), ops::reference::kAbsentLogit),
                   logits - logits.detach());
  const torch::Tensor weights =
      ops::philox_dropout(torch::softmax(scores, -1).to(v.scalar_type()), dropout, training);
  return torch::matmul(weights, v);
}

}  // namespace lra::released
