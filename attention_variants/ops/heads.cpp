#include "attention_variants/ops/heads.h"

#include <cstdint>

namespace lra::ops {

torch::Tensor with_contiguous_rows(const torch::Tensor& x) {
  const bool side_by_side = x.stride(3) == 1 || x.size(3) == 1;
  // BLAS counts in 32 bits. Not contiguous(), which passes over the stride of a single row.
  const bool apart = x.stride(2) >= x.size(3) && x.stride(2) <= INT32_MAX;
  return side_by_side && apart ? x.resolve_neg() : x.clone(at::MemoryFormat::Contiguous);
}

torch::Tensor empty_heads_like(const torch::Tensor& x, int64_t width) {
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2);
  if (x.is_contiguous()) return torch::empty({batch, heads, length, width}, x.options());
  return torch::empty({batch, length, heads, width}, x.options()).transpose(1, 2);
}

}  // namespace lra::ops
