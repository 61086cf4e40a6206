#include "attention_variants/ops/padding.h"

namespace lra::ops {

torch::Tensor nonempty_rows(const torch::Tensor& mask) {
  return mask.logical_or(mask.any(/*dim=*/-1, /*keepdim=*/true).logical_not());
}

torch::Tensor zero_padding(const torch::Tensor& x, const torch::Tensor& mask) {
  return x.masked_fill(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

torch::Tensor zero_padded_rows(torch::Tensor fresh, const torch::Tensor& mask) {
  if (fresh.requires_grad()) return zero_padding(fresh, mask);
  return fresh.masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

}  // namespace lra::ops
