// Tensors of heads [B,H,N,d] as own kernels read and write them: rows side by side, the rest by
// strides.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// x [B,H,N,d], copied unless the elements of a row lie side by side and rows do not overlap.
torch::Tensor with_contiguous_rows(const torch::Tensor& x);

/// Not filled: [B,H,N,width] in the type of x [B,H,N,d], contiguous where x is, as autograd copies
/// a gradient that is laid out otherwise than its leaf; else laid out as [B,N,H,width], and what
/// joins the heads is a view.
torch::Tensor empty_heads_like(const torch::Tensor& x, int64_t width);
inline torch::Tensor empty_heads_like(const torch::Tensor& x) {
  return empty_heads_like(x, x.size(3));
}

}  // namespace lra::ops
