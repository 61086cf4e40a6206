// Attention within the chunks of hashed and sorted tokens on CPUs as one operator; see
// cpu/lsh_head.h.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_variants/ops/cpu/kernels/lsh_attention.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct LshOptions {
  int64_t rounds = 1;
  int64_t chunk = 0;  // tokens
  int64_t before = 0, after = 0;
  cpu::KeyScale key_scale = cpu::KeyScale::rms;
  std::vector<int64_t> bucket_factors;  // none = one bucket
};

/// x [B,H,N,d], the queries and unscaled keys, v [B,H,N,d], both float32 on a CPU, mask [B,N] bool,
/// rotations [H,R,Σ factors/2,d] float32, contiguous -> [B,H,N,d], laid out as [B,N,H,d]; rows of
/// padding are zero. Differentiable once.
torch::Tensor lsh_attention(const torch::Tensor& x, const torch::Tensor& v,
                            const torch::Tensor& mask, const torch::Tensor& rotations,
                            const LshOptions& settings);

/// Bytes that lsh_attention() holds above its inputs without gradients, the result among them.
int64_t lsh_attention_bytes(int64_t batch, int64_t heads, int64_t length, int64_t head_dim,
                            const LshOptions& settings);

}  // namespace lra::ops
