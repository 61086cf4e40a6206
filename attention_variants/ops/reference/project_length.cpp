#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {

// Samples, and heads where they share the table, stand side by side in one product: the gradient of
// the table then is one product too, and not one a sample that would have to be summed.
torch::Tensor run(const ProjectLengthCall& call) {
  const auto& [x, table, mask] = call;
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2), d = x.size(3);
  const torch::Tensor used = table.narrow(-1, 0, length).to(x.scalar_type());
  const torch::Tensor padded = mask.t().logical_not().unsqueeze(-1);  // [N,B,1]
  if (table.dim() == 2) {
    const torch::Tensor columns = x.permute({2, 1, 0, 3})
                                      .clone(at::MemoryFormat::Contiguous)
                                      .masked_fill_(padded.unsqueeze(1), 0)  // [N,H,B,d]
                                      .flatten(1);
    return torch::mm(used, columns).view({used.size(0), heads, batch, d}).permute({2, 1, 0, 3});
  }
  const torch::Tensor columns = x.permute({1, 2, 0, 3})
                                    .clone(at::MemoryFormat::Contiguous)
                                    .masked_fill_(padded, 0)  // [H,N,B,d]
                                    .flatten(2);
  return torch::bmm(used, columns).view({heads, used.size(1), batch, d}).permute({2, 0, 1, 3});
}

int64_t bytes(const ProjectLengthShape& shape) {
  return shape.batch * shape.heads * shape.rows * shape.head_dim * shape.element_size;
}

}  // namespace lra::ops::reference
