// Softmax attention by LibTorch's operators, the building block of the variants.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// softmax(q kᵀ / √d) v through LibTorch's fused kernel: q [B,H,M,d], k and v [B,H,N,d], keys [B,N]
/// bool (true = seen; undefined = all) -> [B,H,M,d]. Never holds M x N. A sample without any key
/// sees all of them, so that nothing becomes NaN forward or backward; its result means nothing and
/// the caller drops it. With a dropout, of the weights, LibTorch's kernels on CPUs do hold M x N
/// and draw from LibTorch's generator: there the operators here store the weights themselves.
torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& keys,
                                double dropout = 0);

/// The same of all tokens to all, q, k, v [B,H,N,d] and mask [B,N], by storing the weights
/// [B,H,N,N], with a dropout of them in training; rows of padding are zero.
torch::Tensor materialized_attention(const torch::Tensor& q, const torch::Tensor& k,
                                     const torch::Tensor& v, const torch::Tensor& mask,
                                     double dropout, bool training);

/// q kᵀ / √d, [B,H,M,N].
torch::Tensor stored_scores(const torch::Tensor& q, const torch::Tensor& k);

/// Weights [B,H,M,N] with a dropout: on CPUs the own kernel drops the same; on GPUs this is
/// LibTorch's own dropout.
torch::Tensor drop_weights(const torch::Tensor& weights, double p, bool training);

/// The bias [2R-1] of each distance of key and query, -(R - 1) first, as [M,N]; R at least M and N.
torch::Tensor bias_of_pairs(const torch::Tensor& of_distance, int64_t queries, int64_t keys);

}  // namespace lra::ops::reference
