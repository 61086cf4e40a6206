// Softmax attention in linear memory, the building block of the variants, and the two ways a mask
// enters.
#pragma once

#include "attention_variants/torch.h"

namespace lra {

/// softmax(q kᵀ / √d) v through LibTorch's fused kernel: q [B,H,M,d], k and v [B,H,N,d], keys [B,N]
/// bool (true = seen; undefined = all) -> [B,H,M,d]. Never holds M x N. A sample without any key
/// sees all of them, so that nothing becomes NaN forward or backward; its result means nothing and
/// the caller drops it. With a dropout, of the weights, LibTorch's kernels on CPUs do hold M x N.
torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& keys,
                                double dropout = 0);

/// mask [B,N], with the rows that are false throughout made true.
torch::Tensor nonempty_rows(const torch::Tensor& mask);

/// x [B,H,N,d] with the rows of padded positions (mask [B,N] false) zeroed, whatever stood there.
torch::Tensor zero_padding(const torch::Tensor& x, const torch::Tensor& mask);

/// The same for a fresh result that nobody else holds: in place where autograd does not need the
/// old values.
torch::Tensor zero_padded_rows(torch::Tensor fresh, const torch::Tensor& mask);

}  // namespace lra
