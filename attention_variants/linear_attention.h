// Attention whose kernel is a product of features, computed from the right: φ(Q) (φ(K)ᵀ V).
#pragma once

#include <torch/torch.h>

namespace lra {

/// [v, 1] with the rows of padded positions (mask [B,N] false) zero, whatever stood there: v
/// [B,H,N,d] -> [B,H,N,d+1], the values of linear_attention().
torch::Tensor counted_values(const torch::Tensor& v, const torch::Tensor& mask);

/// out_i = Σ_j κ_ij v_j / max(Σ_j κ_ij n_j, least) with κ_ij = (φ(q_i) + offset)·(φ(k_j) + offset):
/// q_features and k_features [B,H,N,f] are φ, values [B,H,N,d+1] are [v, n] where n is what a key
/// counts for (1, or 0 for a padded one) -> [B,H,N,d] in the type of values. A key that counts for
/// nothing must have v = 0; its features need be finite only. The offset is added to sums over
/// positions or features, so that no second [B,H,N,f] is made for it. O(N f d) time; memory O(N d)
/// beside the features.
torch::Tensor linear_attention(const torch::Tensor& q_features, const torch::Tensor& k_features,
                               const torch::Tensor& values, double offset, double least);

}  // namespace lra
