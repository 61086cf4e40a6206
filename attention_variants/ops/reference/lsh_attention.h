// Attention among tokens that a hash puts near each other by LibTorch's operators: on any device,
// in any floating-point type, and what the kernel of kernels/lsh.h is compared with.
#pragma once

#include "attention_variants/ops/lsh_attention.h"
#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// What lsh_attention() computes, for x, v [B,H,N,d] of any type on any device; hashes and the
/// softmax are at least float32, as are rotations [H,R,Σ factors/2,d]; products keep the type of x.
/// Differentiable once.
torch::Tensor lsh_attention(const torch::Tensor& x, const torch::Tensor& v,
                            const torch::Tensor& mask, const torch::Tensor& rotations,
                            const LshOptions& settings);

/// Bytes that lsh_attention() holds on a CPU above its inputs without gradients, the result among
/// them; elements of `element_size` bytes, 4 or 8.
int64_t lsh_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                            int64_t element_size, const LshOptions& settings);

/// The type of hashes, scores and softmaxes of x: float64 for float64, else float32.
torch::ScalarType lsh_wide_type(const torch::Tensor& x);

}  // namespace lra::ops::reference
