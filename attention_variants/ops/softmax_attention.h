// Softmax attention on CPUs as one operator; see cpu/softmax_head.h.
#pragma once

#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// softmax(q kᵀ / √d) v: q [B,H,M,d], k [B,H,N,d], v [B,H,N,e] float32 on a CPU; keys [B,N] bool
/// (true = seen; undefined = all) -> [B,H,M,e], laid out as [B,M,H,e]. Where `queries` [B,M] is
/// given, the rows that it leaves out are zero and cost nothing. Rows of a sample without any key
/// are zero. The weights that `dropout`, of draw_weight_dropout(), drops are zero and the others
/// scaled; no more than a tile of either is ever held. Differentiable once.
torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& keys,
                                const torch::Tensor& queries = {}, const DropoutMask& dropout = {});

/// A dropout with probability p, below 1, of the weights between queries q [B,H,M,d] and keys
/// k [B,H,N,d]; its seed as make_dropout_mask() draws it.
DropoutMask draw_weight_dropout(double p, bool training, const torch::Tensor& q,
                                const torch::Tensor& k);

/// Weights [B,H,M,N] in memory with that dropout: on CPUs the same are dropped. On GPUs this is
/// LibTorch's own dropout.
torch::Tensor drop_weights(const torch::Tensor& weights, double p, bool training);

/// Softmax attention of all tokens to all, q, k and v [B,H,N,d], mask [B,N] -> [B,H,N,d] with the
/// rows of padding zero: by softmax_attention() where there are kernels for q, else by LibTorch's.
torch::Tensor full_attention(Kernels chosen, const torch::Tensor& q, const torch::Tensor& k,
                             const torch::Tensor& v, const torch::Tensor& mask);

/// Bytes that softmax_attention() holds above its inputs without gradients, the result among them,
/// for `rows` = B*H heads, where no padding stands before a token.
int64_t softmax_attention_bytes(int64_t rows, int64_t queries, int64_t keys, int64_t depth,
                                int64_t values);

}  // namespace lra::ops
