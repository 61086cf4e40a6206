// Attentions whose position i reads positions j <= i alone, by LibTorch's operators.
#pragma once

#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// [size,size] bool on the device of `like`, true where column <= row.
torch::Tensor up_to_row(int64_t size, const torch::Tensor& like);

/// softmax(q kᵀ / √d) v over the keys j <= i that are seen: q, k, v [B,H,N,d], keys [B,N] bool ->
/// [B,H,N,d]. A query that is not seen itself reads its own key too, so that none reads nothing.
/// Stores a mask [B,1,N,N], and with a dropout, of the weights, those.
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& keys, double dropout);

/// linear_attention() with both sums over j <= i, of FeatureMap::elu and normalised (Katharopoulos
/// et al., ICML 2020, section 3.3). Chunks of C positions: products within a chunk, and between
/// them the running sum of their φ(K)ᵀ [V, 1]. O(N d (d + C)) time, O(N d (1 + d / C)) memory.
torch::Tensor causal_linear_attention(const LinearAttentionCall& call);

/// Floating-point operations of that, `rows` = B H.
int64_t causal_linear_flops(int64_t rows, int64_t length, int64_t head_dim);

}  // namespace lra::ops::reference
