// Softmax attention, a tile at a time: neither weights nor scores of all pairs are stored.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct SoftmaxAttentionOptions {
  double dropout = 0;     // of the weights, in training, below 1
  bool training = false;  // an account is then of a forward and a backward pass
  /// On LibTorch's operators and a CPU: computes a padded sample at its own length, where its
  /// padding stands behind it and mask and queries are one.
  bool per_sample = false;
};

struct SoftmaxAttentionShape {
  int64_t rows = 0;  // B*H
  int64_t queries = 0, keys = 0, depth = 0, values = 0;
  int64_t element_size = 4;
  bool key_mask = true;  // whether there is one
  SoftmaxAttentionOptions options = {};
  int64_t reach = 0;  // R of a bias for each distance; 0 = there is none
};

/// softmax(q kᵀ / √d) v: q [B,H,M,d], k [B,H,N,d], v [B,H,N,e] -> [B,H,M,e] in the type of q. Rows
/// that `queries` leaves out are zero, and so are all rows of a sample without any key. The weights
/// that a dropout drops are zero and the others scaled; on a CPU the same are dropped by all
/// implementations. The own kernel is differentiable once.
/// With a distance_bias the softmax is of q kᵀ / √d + b, b_ij = distance_bias[j - i + R - 1].
struct SoftmaxAttentionCall {
  using Result = torch::Tensor;
  using Shape = SoftmaxAttentionShape;
  torch::Tensor q, k, v;
  torch::Tensor keys;     // [B,N] bool, true = seen; undefined = all
  torch::Tensor queries;  // [B,M] bool; undefined = all
  SoftmaxAttentionOptions options = {};
  /// [2R-1] in the type of q, R at least M and N, finite; undefined = none.
  torch::Tensor distance_bias = {};

  Shape shape() const {
    return {.rows = q.size(0) * q.size(1),
            .queries = q.size(2),
            .keys = k.size(2),
            .depth = q.size(3),
            .values = v.size(3),
            .element_size = q.element_size(),
            .key_mask = keys.defined(),
            .options = options,
            .reach = distance_bias.defined() ? (distance_bias.size(0) + 1) / 2 : 0};
  }
};

torch::Tensor softmax_attention(Kernels asked, const SoftmaxAttentionCall& call);

/// Bytes above the inputs, the result among them, where no padding stands before a token; -1: no
/// account.
int64_t softmax_attention_bytes(Kernels asked, const SoftmaxAttentionShape& shape);

}  // namespace lra::ops
