#include "attention_variants/ops/reference/softmax_attention.h"

namespace lra {

torch::Tensor nonempty_rows(const torch::Tensor& mask) {
  return mask.logical_or(mask.any(/*dim=*/-1, /*keepdim=*/true).logical_not());
}

torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& keys, double dropout) {
  std::optional<torch::Tensor> bias;
  // [B,1,1,N]: the fused kernels broadcast it; expanding it to [B,1,M,N] would store it and is
  // slower besides.
  if (keys.defined()) bias = nonempty_rows(keys).unsqueeze(1).unsqueeze(1);
  return at::scaled_dot_product_attention(q, k, v, bias, dropout);
}

torch::Tensor zero_padding(const torch::Tensor& x, const torch::Tensor& mask) {
  return x.masked_fill(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

torch::Tensor zero_padded_rows(torch::Tensor fresh, const torch::Tensor& mask) {
  if (fresh.requires_grad()) return zero_padding(fresh, mask);
  return fresh.masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

}  // namespace lra
