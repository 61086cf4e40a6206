#include "attention_variants/linear_attention.h"

namespace lra {

torch::Tensor counted_values(const torch::Tensor& v, const torch::Tensor& mask) {
  // Padding makes a fresh tensor, so the fill is in place, and reaches the column of ones too.
  return at::constant_pad_nd(v, {0, 1}, 1)
      .masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

torch::Tensor linear_attention(const torch::Tensor& q_features, const torch::Tensor& k_features,
                               const torch::Tensor& values, double offset, double least) {
  // φ(K)ᵀ [v, n]: the sums of numerator and denominator in one product.
  torch::Tensor totals = torch::matmul(k_features.transpose(-2, -1), values);  // [B,H,f,d+1]
  if (offset != 0) totals = totals + offset * values.sum(2, /*keepdim=*/true);
  torch::Tensor sums = torch::matmul(q_features, totals);  // [B,H,N,d+1]
  if (offset != 0) sums = sums + offset * totals.sum(2, /*keepdim=*/true);
  const int64_t d = values.size(-1) - 1;
  return (sums.narrow(-1, 0, d) / sums.narrow(-1, d, 1).clamp_min(least)).to(values.scalar_type());
}

}  // namespace lra
