#include "attention_variants/ops/reference/linear_attention.h"

namespace lra::ops::reference {

torch::Tensor values_with_ones(const torch::Tensor& v, const torch::Tensor& mask) {
  // Padding makes a fresh tensor, so the fill is in place, and reaches the column of ones too.
  return at::constant_pad_nd(v, {0, 1}, 1)
      .masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

torch::Tensor key_value_sums(const torch::Tensor& k_features, const torch::Tensor& values,
                             double offset) {
  const torch::Tensor sums = torch::matmul(k_features.transpose(-2, -1), values);
  return offset == 0 ? sums : sums + offset * values.sum(2, /*keepdim=*/true);
}

torch::Tensor normalised_readout(const torch::Tensor& q_features, const torch::Tensor& sums,
                                 double offset, double denominator_min) {
  torch::Tensor both = torch::matmul(q_features, sums);  // numerator and denominator [B,H,N,d+1]
  if (offset != 0) both = both + offset * sums.sum(2, /*keepdim=*/true);
  const int64_t d = sums.size(-1) - 1;
  return both.narrow(-1, 0, d) / both.narrow(-1, d, 1).clamp_min(denominator_min);
}

}  // namespace lra::ops::reference
