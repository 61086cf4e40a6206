// Attention whose kernel is a product of features on CPUs as one operator; see cpu/feature_head.h.
#pragma once

#include "attention_variants/ops/cpu/kernels/linear_attention.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct LinearAttentionOptions {
  cpu::FeatureMap map = cpu::FeatureMap::elu;
  double norm = 0;             // of softmax: what ‖x‖² is multiplied by
  double offset = 0;           // of all features
  bool normalise = true;       // false: the sums over keys are divided by √N instead
  double denominator_min = 0;  // of the denominator
  bool count_padding = false;  // padded keys count as tokens with k = v = 0
};

/// φ(Q) (φ(K)ᵀ V) / (φ(Q)·Σ φ(K)): q, k, v [B,H,N,d] float32 on a CPU, mask [B,N] bool ->
/// [B,H,N,d], laid out as [B,N,H,d]; rows of padded positions are zero. Of the maps relu and
/// softmax, `table` is W [f,d]; of cosine, the positions' sines and cosines [B,N,2]; else it is
/// empty. Differentiable once towards q, k, v.
torch::Tensor linear_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask,
                               const torch::Tensor& table, const LinearAttentionOptions& options);

/// Bytes that linear_attention() with `width` features holds above its inputs without gradients,
/// the result among them.
int64_t linear_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                               int64_t width);

}  // namespace lra::ops
