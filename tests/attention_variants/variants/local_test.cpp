// Local attention against softmax over the own block, its limit, and what it holds in memory.
#include "tests/attention_variants/pattern.h"

namespace lra {
namespace {

Pattern own_block(int64_t block) {
  return [block](int64_t, int64_t i, int64_t j) { return i / block == j / block; };
}

TEST(Local, EqualsSoftmaxOverTheOwnBlock) {
  for (const int64_t block : {1, 4, 8, 64}) {
    const auto attention = make("local[block=" + std::to_string(block) + "]");
    for (const int64_t n : {1, 3, 8, 31, 32}) {
      EXPECT_LT(deviation_from_pattern(*attention, n, own_block(block)), 1e-13)
          << "block " << block << ", N = " << n;
      EXPECT_LT(deviation_from_pattern(*attention, n, own_block(block), scattered_mask(n)), 1e-13)
          << "block " << block << ", N = " << n << ", scattered padding";
    }
  }
}

TEST(Local, IsSoftmaxWhereOneBlockHoldsAll) {
  const Inputs in = make_inputs({40, 17}, 40);
  const torch::Tensor expected = attend(*make("standard"), in);
  EXPECT_LT(difference(attend(*make("local[block=40]"), in), expected), 1e-13);
  EXPECT_GT(difference(attend(*make("local[block=39]"), in), expected), 1e-3);
}

TEST(Local, HugePaddingChangesNothing) {
  EXPECT_EQ(change_by_huge_padding(*make("local[block=8]"), 29), 0);
}

TEST(Local, MemoryGrowsWithN) {
  for (const bool training : {false, true}) EXPECT_LT(memory_growth("local", training), 2.2);
}

TEST(Local, CountsTheProductsOfItsBlocks) {
  // 4 blocks of 8 and one of 5, two products of 4 each, two operations each, 3 samples, 2 heads.
  EXPECT_EQ(make("local[block=8]")->flops(3, 37), 3 * 2 * (4 * 8 * 8 + 5 * 5) * 2 * 2 * 4);
  EXPECT_EQ(make("local[block=64]")->flops(3, 37), make("standard")->flops(3, 37));
}

}  // namespace
}  // namespace lra
