// The softmax kernels on LibTorch's tensors, for the operators that are made of them.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops::cuda {

/// softmax(q kᵀ / √d) v: q [B,H,M,d], k and v [B,H,N,d] with readable rows. Masks [B,M] and [B,N]
/// bool are contiguous; undefined: all ask, all are seen.
struct SoftmaxTensors {
  torch::Tensor q, k, v, query_mask, key_mask;
  torch::Tensor out;    // [B,H,M,d]
  torch::Tensor stats;  // [2,B,H,M] float32
};

struct SoftmaxGradients {
  torch::Tensor q, k, v;
};

/// Computes out and stats, which it allocates, and adds out to `sum` [B,H,M,d] if that is defined.
/// One launch, or where queries are few two.
void softmax_forward(SoftmaxTensors& tensors, const torch::Tensor& sum = {});

/// Not filled, for gradients of q, k and v [B,H,N,d]: side by side in one tensor where those are
/// parts of one, so that what joins them again is a view.
SoftmaxGradients empty_gradients(const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v);

/// The gradients, given that of out, with readable rows; into those of `into` that are defined. Two
/// launches, and one for each of queries and keys of which there are few.
SoftmaxGradients softmax_backward(const SoftmaxTensors& tensors, const torch::Tensor& grad_out,
                                  const SoftmaxGradients& into = {});

}  // namespace lra::ops::cuda
