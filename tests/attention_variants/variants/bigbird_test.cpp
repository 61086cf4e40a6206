// BigBird attention against softmax over its pattern, its random blocks, its limits, and what it
// holds in memory.
#include <set>

#include "tests/attention_variants/pattern.h"

namespace lra {
namespace {

// table [H,n,r]
Pattern blocks(int64_t block, int64_t length, const torch::Tensor& table) {
  return [=](int64_t h, int64_t i, int64_t j) {
    const int64_t last = (length - 1) / block, from = i / block, to = j / block;
    return from == 0 || from == last || to == 0 || to == last || std::abs(from - to) <= 1 ||
           table[h][from].eq(to).any().item<bool>();
  };
}

std::string bigbird_spec(int64_t block, int64_t random_blocks, int64_t seed = -1) {
  return "bigbird[block=" + std::to_string(block) +
         ",random_blocks=" + std::to_string(random_blocks) + ",seed=" + std::to_string(seed) + "]";
}

// Which blocks each block of each head sees, from what a change in a block changes: [H,n,n].
torch::Tensor blocks_seen(Attention& attention, int64_t block, int64_t count) {
  const int64_t length = block * count;
  Inputs in = make_inputs({length}, length);
  const torch::Tensor before = attend(attention, in);
  torch::Tensor seen = torch::zeros({2, count, count}, torch::kBool);
  for (int64_t j = 0; j < count; ++j) {
    Inputs other = in;
    other.v = in.v.clone();
    other.v.narrow(2, j * block, block) += 1;
    const torch::Tensor change = (attend(attention, other) - before).abs().amax({0, 3});  // [H,N]
    seen.select(2, j).copy_(change.view({2, count, block}).amax(2).gt(1e-12));
  }
  return seen;
}

TEST(Bigbird, EqualsSoftmaxOverItsPattern) {
  // Rows of the ends are not read; a block may list none.
  const torch::Tensor table =
      torch::tensor({{{-1, -1}, {4, 6}, {5, -1}, {6, 1}, {1, 2}, {1, 2}, {2, 3}, {-1, -1}},
                     {{7, 7}, {5, 3}, {6, 4}, {-1, -1}, {2, 1}, {3, 2}, {4, 1}, {7, 7}}});
  for (const int64_t n : {57, 61, 64}) {
    const auto attention = make(bigbird_spec(8, 2));
    attention->set_table("random_blocks", table);
    EXPECT_LT(deviation_from_pattern(*attention, n, blocks(8, n, table)), 1e-13) << "N = " << n;
    EXPECT_LT(deviation_from_pattern(*attention, n, blocks(8, n, table), scattered_mask(n)), 1e-13)
        << "N = " << n << ", scattered padding";
  }
}

TEST(Bigbird, EveryNumberOfBlocks) {
  for (const int64_t count : {1, 2, 3, 4, 5, 6, 9}) {
    for (const int64_t n : {4 * count, 4 * count - 3}) {
      const torch::Tensor none = torch::full({2, count, 1}, -1, torch::kLong);
      const auto attention = make(bigbird_spec(4, 1));
      attention->set_table("random_blocks", none);
      EXPECT_LT(deviation_from_pattern(*attention, n, blocks(4, n, none)), 1e-13) << "N = " << n;
      const torch::Tensor no_column = torch::empty({2, count, 0}, torch::kLong);
      EXPECT_LT(deviation_from_pattern(*make(bigbird_spec(4, 0)), n, blocks(4, n, no_column)),
                1e-13)
          << "N = " << n;
    }
  }
}

TEST(Bigbird, DrawsRandomBlocksAmongThoseNotSeen) {
  const int64_t count = 12, r = 3;
  const torch::Tensor seen = blocks_seen(*make(bigbird_spec(2, r)), 2, count);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < count; ++i) {
      std::set<int64_t> always = {0, count - 1, i};
      if (i > 0) always.insert(i - 1);
      if (i < count - 1) always.insert(i + 1);
      const bool end = i == 0 || i == count - 1;
      const int64_t expected = end ? count : std::ssize(always) + r;
      EXPECT_EQ(seen[h][i].sum().item<int64_t>(), expected) << "head " << h << ", block " << i;
      for (const int64_t j : always) EXPECT_TRUE(seen[h][i][j].item<bool>());
    }
  }
  EXPECT_FALSE(torch::equal(seen[0], seen[1])) << "each head has its own";
}

TEST(Bigbird, AnyOtherBlockMayBeDrawn) {
  // Over many seeds each block that is not seen anyway comes up about equally often: 300 draws of 1
  // in 5 or 6.
  const int64_t count = 10;
  torch::Tensor times = torch::zeros({count, count}, torch::kLong);
  for (int64_t seed = 0; seed < 150; ++seed) {
    times += blocks_seen(*make(bigbird_spec(1, 1, seed)), 1, count).sum(0);
  }
  for (int64_t i = 1; i < count - 1; ++i) {
    for (int64_t j = 1; j < count - 1; ++j) {
      if (std::abs(i - j) <= 1) {
        EXPECT_EQ(times[i][j].item<int64_t>(), 300);
      } else {
        EXPECT_GT(times[i][j].item<int64_t>(), 25) << i << " " << j;
        EXPECT_LT(times[i][j].item<int64_t>(), 95) << i << " " << j;
      }
    }
  }
}

TEST(Bigbird, TakesAllWhereFewerThanRRemain) {
  // 7 blocks: the second has 3 others, the ones after 2.
  const Inputs in = make_inputs({56, 40}, 56);
  EXPECT_LT(difference(attend(*make(bigbird_spec(8, 3)), in), attend(*make("standard"), in)),
            1e-13);
  EXPECT_GT(difference(attend(*make(bigbird_spec(8, 2)), in), attend(*make("standard"), in)), 1e-6);
  const torch::Tensor seen = blocks_seen(*make(bigbird_spec(2, 2)), 2, 7);
  for (int64_t i = 2; i < 5; ++i) EXPECT_TRUE(seen.select(1, i).all().item<bool>());
  EXPECT_EQ(seen.select(1, 1).sum().item<int64_t>(), 2 * 6);
}

TEST(Bigbird, TheSeedDecidesThePattern) {
  const Inputs in = make_inputs({64}, 64);
  const auto with = [&](int64_t option, uint64_t layer) {
    return attend(*make(bigbird_spec(4, 1, option), torch::kDouble,
                        {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = layer}),
                  in);
  };
  EXPECT_TRUE(torch::equal(with(-1, 1), with(-1, 1)));
  EXPECT_GT(difference(with(-1, 1), with(-1, 2)), 1e-3);
  EXPECT_TRUE(torch::equal(with(5, 1), with(5, 2)));
  EXPECT_TRUE(torch::equal(with(-1, 5), with(5, 1)));
}

TEST(Bigbird, ChecksItsTable) {
  const auto attention = make(bigbird_spec(8, 2));
  EXPECT_EQ(attention->tables(), std::vector<std::string>{"random_blocks"});
  const auto filled = [](std::vector<int64_t> shape, int64_t value) {
    return torch::full(shape, value, torch::kLong);
  };
  EXPECT_THROW(attention->set_table("random_block", filled({2, 8, 2}, 0)), UsageError);
  EXPECT_THROW(attention->set_table("random_blocks", filled({2, 8, 3}, 0)), Error);
  EXPECT_THROW(attention->set_table("random_blocks", filled({2, 8, 2}, 8)), Error);
  EXPECT_THROW(attention->set_table("random_blocks", filled({2, 8, 2}, -2)), Error);
  EXPECT_THROW(attention->set_table("random_blocks", torch::zeros({2, 8, 2})), Error);
  attention->set_table("random_blocks", filled({2, 8, 2}, 3));
  EXPECT_THROW(attend(*attention, make_inputs({80}, 80)), Error);
  EXPECT_THROW(attend(*attention, make_inputs({64}, 64, torch::kDouble, /*heads=*/4)), Error);
  EXPECT_NO_THROW(attend(*attention, make_inputs({64}, 64)));
}

TEST(Bigbird, HugePaddingChangesNothing) {
  EXPECT_EQ(change_by_huge_padding(*make(bigbird_spec(4, 1)), 29), 0);
}

TEST(Bigbird, MemoryGrowsWithN) {
  for (const bool training : {false, true}) EXPECT_LT(memory_growth("bigbird", training), 2.2);
}

TEST(Bigbird, CountsTheProductsOfItsBlocks) {
  // 10 blocks of 4, the last of 1: between the ends 6 with both of those and 4 more, and 2 whose
  // neighbour is an end with one less; 5 rows that see all.
  EXPECT_EQ(make(bigbird_spec(4, 1))->flops(3, 37),
            3 * 2 * 2 * 2 * 4 * (6 * 4 * 21 + 2 * 4 * 17 + 5 * 37));
  EXPECT_EQ(make("bigbird")->flops(3, 37), make("standard")->flops(3, 37));
  // Behind 37 or 39 positions zeros up to 40, behind 36 a whole block.
  const auto released = make("bigbird[block=4,random_blocks=1,append=block]");
  for (const int64_t n : {36, 37, 39}) {
    EXPECT_EQ(released->flops(3, n), 3 * 2 * 2 * 2 * 4 * (6 * 4 * 24 + 2 * 4 * 20 + 8 * 40)) << n;
    EXPECT_EQ(released->analytic_bytes(3, n, 4, /*training=*/false), -1);
  }
}

}  // namespace
}  // namespace lra
