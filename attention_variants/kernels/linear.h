// Linear attention on CPUs as one operator; see cpu/linear_head.h.
#pragma once

#include "attention_variants/torch.h"

namespace lra {

struct LinearKernelOptions {
  bool normalise = true;  // false: the sums over keys are divided by √N instead
  double least = 0;       // of the denominator
};

/// φ(Q) (φ(K)ᵀ V) / (φ(Q)·Σ φ(K)) with φ(x) = elu(x) + 1: q, k, v [B,H,N,d] float32 on a CPU, mask
/// [B,N] bool -> [B,H,N,d], laid out as [B,N,H,d]; rows of padded positions are zero.
/// Differentiable once.
torch::Tensor linear_kernel(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& mask, const LinearKernelOptions& options);

/// Bytes that linear_kernel() holds above its inputs without gradients, the result among them.
int64_t linear_kernel_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                            const LinearKernelOptions& options);

}  // namespace lra
