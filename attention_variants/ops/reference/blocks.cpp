#include "attention_variants/ops/reference/blocks.h"

namespace lra::ops::reference {

int64_t block_count(int64_t length, int64_t block) { return (length + block - 1) / block; }

torch::Tensor split_blocks(const torch::Tensor& x, const torch::Tensor& mask, int64_t block) {
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2), width = x.size(3);
  const int64_t count = block_count(length, block), missing = count * block - length;
  const torch::Tensor rows = x.transpose(1, 2);  // [B,N,H,d]
  // One copy in either case, so that what follows may be in place.
  torch::Tensor fresh = missing == 0 ? rows.clone(at::MemoryFormat::Contiguous)
                                     : at::constant_pad_nd(rows, {0, 0, 0, 0, 0, missing});
  fresh.narrow(1, 0, length).masked_fill_(mask.logical_not().unsqueeze(-1).unsqueeze(-1), 0);
  return fresh.reshape({batch * count, block, heads, width}).transpose(1, 2);
}

torch::Tensor split_mask(const torch::Tensor& mask, int64_t block) {
  const int64_t count = block_count(mask.size(1), block);
  return at::constant_pad_nd(mask, {0, count * block - mask.size(1)}).reshape({-1, block});
}

torch::Tensor join_blocks(const torch::Tensor& blocks, int64_t batch, int64_t length) {
  return blocks.transpose(1, 2)
      .reshape({batch, -1, blocks.size(1), blocks.size(3)})
      .narrow(1, 0, length)
      .transpose(1, 2);
}

}  // namespace lra::ops::reference
