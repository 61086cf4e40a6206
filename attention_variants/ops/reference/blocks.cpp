#include "attention_variants/ops/reference/blocks.h"

#include <algorithm>
#include <set>

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
  return at::constant_pad_nd(mask, {0, count * block - mask.size(1)})
      .reshape({mask.size(0) * count, block});
}

torch::Tensor join_blocks(const torch::Tensor& blocks, int64_t batch, int64_t length) {
  const int64_t block = blocks.size(2),
                count = batch > 0 ? blocks.size(0) / batch : block_count(length, block);
  return blocks.transpose(1, 2)
      .reshape({batch, count * block, blocks.size(1), blocks.size(3)})
      .narrow(1, 0, length)
      .transpose(1, 2);
}

torch::Tensor fixed_blocks(int64_t count) {
  const torch::Tensor own = torch::arange(1, count - 1, torch::kLong);
  const torch::Tensor ends = torch::tensor({int64_t{0}, count - 1}).expand({count - 2, 2});
  // A neighbour that is an end is there already.
  const torch::Tensor before = (own - 1).masked_fill(own.eq(1), -1),
                      after = (own + 1).masked_fill(own.eq(count - 2), -1);
  return torch::cat({ends, torch::stack({before, own, after}, 1)}, 1);
}

torch::Tensor draw_blocks(int64_t heads, int64_t count, int64_t r, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor draw = torch::rand({heads, count, r}, generator, torch::kDouble);
  torch::Tensor table = torch::full({heads, count, r}, -1, torch::kLong);
  const auto uniform = draw.accessor<double, 3>();
  auto chosen = table.accessor<int64_t, 3>();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 1; i < count - 1; ++i) {
      std::set<int64_t> taken = {0, i - 1, i, i + 1, count - 1};
      const int64_t others = count - std::ssize(taken);
      for (int64_t j = 0; j < std::min(r, others); ++j) {
        // The rank of the block among those not taken.
        int64_t block = static_cast<int64_t>(uniform[h][i][j] * static_cast<double>(others - j));
        for (const int64_t t : taken) block += t <= block ? 1 : 0;
        chosen[h][i][j] = block;
        taken.insert(block);
      }
    }
  }
  return table;
}

}  // namespace lra::ops::reference
