#include "attention_variants/ops/reference/softmax_attention.h"

#include "attention_variants/ops/padding.h"

namespace lra::ops::reference {

torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& keys, double dropout) {
  std::optional<torch::Tensor> bias;
  // [B,1,1,N]: the fused kernels broadcast it; expanding it to [B,1,M,N] would store it and is
  // slower besides.
  if (keys.defined()) bias = nonempty_rows(keys).unsqueeze(1).unsqueeze(1);
  return at::scaled_dot_product_attention(q, k, v, bias, dropout);
}

}  // namespace lra::ops::reference
