// Attention whose kernel is a product of features, computed from the right: φ(Q) (φ(K)ᵀ V).
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// [v, 1] with the rows of padded positions (mask [B,N] false) zero, whatever stood there: v
/// [B,H,N,d] -> [B,H,N,d+1], the values of key_value_sums().
torch::Tensor values_with_ones(const torch::Tensor& v, const torch::Tensor& mask);

/// Σ_j (φ(k_j) + offset) [v_j, n_j]: k_features [B,H,N,f] are φ, values [B,H,N,d+1] are [v, n],
/// where n is what a key counts for (1, or 0 for a padded one) -> [B,H,f,d+1]. A key that counts
/// for nothing must have v = 0; its features need be finite only. The offset is added to the sums,
/// so that no second [B,H,N,f] is made for it. O(N f d) time.
torch::Tensor key_value_sums(const torch::Tensor& k_features, const torch::Tensor& values,
                             double offset);

/// (φ(q_i) + offset)·sums, its first d columns divided by the last, which counts as
/// `denominator_min` at least: q_features [B,H,N,f], sums of key_value_sums() [B,H,f,d+1] ->
/// [B,H,N,d]. O(N f d) time.
torch::Tensor normalised_readout(const torch::Tensor& q_features, const torch::Tensor& sums,
                                 double offset, double denominator_min);

}  // namespace lra::ops::reference
