// Tensors as own kernels read and write them: dense, or of heads [B,H,N,d] with rows side by side
// and the rest by strides; never as LibTorch's negated views (z.conj().imag), whose memory holds
// the opposite of their values.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// x itself, or a copy of it without gaps.
inline torch::Tensor dense(const torch::Tensor& x) {
  const torch::Tensor y = x.contiguous();
  return y.is_neg() ? y.resolve_neg() : y;  // it may be undefined
}

/// x [B,H,N,d], copied unless the elements of a row lie side by side, rows do not overlap, their
/// stride is one of BLAS and it is no negated view.
torch::Tensor with_contiguous_rows(const torch::Tensor& x);

/// Not filled: [B,H,N,width] in the type of x [B,H,N,d], contiguous where x is, as autograd copies
/// a gradient that is laid out otherwise than its leaf; else laid out as [B,N,H,width], and what
/// joins the heads is a view.
torch::Tensor empty_heads_like(const torch::Tensor& x, int64_t width);
inline torch::Tensor empty_heads_like(const torch::Tensor& x) {
  return empty_heads_like(x, x.size(3));
}

}  // namespace lra::ops
