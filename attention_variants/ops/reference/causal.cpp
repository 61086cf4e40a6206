#include "attention_variants/ops/reference/causal.h"

#include <limits>

#include "attention_variants/ops/reference/softmax_attention.h"

namespace lra::ops::reference {

torch::Tensor up_to_row(int64_t size, const torch::Tensor& like) {
  return torch::ones({size, size}, like.options().dtype(torch::kBool)).tril();
}

torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& keys, double dropout) {
  const int64_t length = q.size(2);
  const torch::Tensor own = torch::eye(length, keys.options());  // [N,N]
  const torch::Tensor seen =
      keys.view({keys.size(0), 1, 1, length}).logical_or(own).logical_and(up_to_row(length, keys));
  if (dropout == 0 || !q.is_cpu()) return at::scaled_dot_product_attention(q, k, v, seen, dropout);
  // So that one process drops what several do.
  const torch::Tensor scores =
      stored_scores(q, k).masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  return torch::matmul(drop_weights(torch::softmax(scores, -1), dropout, /*training=*/true), v);
}

}  // namespace lra::ops::reference
