// Attention within the chunks of hashed and sorted tokens.
//
// Kitaev et al., "Reformer: The Efficient Transformer", ICLR 2020.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct LshOptions {
  int64_t rounds = 1;
  int64_t chunk = 0;  // tokens
  int64_t before = 0, after = 0;
  KeyScale key_scale = KeyScale::rms;
  std::vector<int64_t> bucket_factors;  // none = one bucket
};

struct LshShape {
  int64_t batch = 0, heads = 0, length = 0, head_dim = 0, element_size = 4;
  LshOptions options = {};
};

/// x [B,H,N,d], the queries and unscaled keys, v [B,H,N,d], mask [B,N] bool, rotations [H,R,Σ
/// factors/2,d] of at least float32, contiguous -> [B,H,N,d]; rows of padding are zero.
/// Differentiable once.
struct LshCall {
  using Result = torch::Tensor;
  using Shape = LshShape;
  torch::Tensor x, v, mask, rotations;
  LshOptions options = {};

  Shape shape() const {
    return {.batch = x.size(0),
            .heads = x.size(1),
            .length = x.size(2),
            .head_dim = x.size(3),
            .element_size = x.element_size(),
            .options = options};
  }
};

torch::Tensor lsh_attention(Kernels asked, const LshCall& call);

/// Bytes above the inputs without gradients, the result among them; -1 for types that are widened.
int64_t lsh_attention_bytes(Kernels asked, const LshShape& shape);

/// Floating-point operations of one in which every row is a token, a multiply-add two.
int64_t lsh_attention_flops(const LshShape& shape);

}  // namespace lra::ops
