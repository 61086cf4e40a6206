// The projection of the length of keys and values.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct ProjectLengthShape {
  int64_t batch = 0, heads = 0, length = 0, head_dim = 0;
  int64_t rows = 0;    // k of the table
  int64_t tables = 1;  // H where each head has its own
  int64_t element_size = 4;
  bool float_table = true;
};

/// Σ_n table[.,n] x[n] of each head of each sample over the positions n where `mask` [B,N] is true:
/// x [B,H,N,d], table [k,Nmax] or, each head its own, [H,k,Nmax], Nmax at least N -> [B,H,k,d]. The
/// own kernel takes x where it lies, leaves out what is after a sample's last token, is
/// differentiable once, and the same for any number of threads where products are in registers.
struct ProjectLengthCall {
  using Result = torch::Tensor;
  using Shape = ProjectLengthShape;
  torch::Tensor x, table, mask;

  Shape shape() const {
    return {.batch = x.size(0),
            .heads = x.size(1),
            .length = x.size(2),
            .head_dim = x.size(3),
            .rows = table.size(-2),
            .tables = table.dim() == 3 ? table.size(0) : 1,
            .element_size = x.element_size(),
            .float_table = table.scalar_type() == torch::kFloat};
  }
};

torch::Tensor project_length(Kernels asked, const ProjectLengthCall& call);

/// Bytes of the result.
int64_t project_length_bytes(Kernels asked, const ProjectLengthShape& shape);

}  // namespace lra::ops
