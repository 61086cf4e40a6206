// Sparse attention against softmax over its pattern, its limits, and what it holds in memory.
#include "tests/attention_variants/pattern.h"

namespace lra {
namespace {

Pattern fixed_pattern(int64_t block, int64_t summary, bool causal) {
  return [=](int64_t, int64_t i, int64_t j) {
    const bool seen = i / block == j / block || j % block == 0 || j % block >= block - summary;
    return seen && (!causal || j <= i);
  };
}

std::string sparse_spec(int64_t block, int64_t summary, bool causal) {
  return "sparse[block=" + std::to_string(block) + ",summary=" + std::to_string(summary) +
         ",causal=" + (causal ? "true" : "false") + "]";
}

TEST(Sparse, EqualsSoftmaxOverItsPattern) {
  for (const auto& [block, summary] : {std::pair{8, 0}, {8, 3}, {8, 7}, {8, 8}, {1, 0}, {5, 1}}) {
    for (const bool causal : {false, true}) {
      const auto attention = make(sparse_spec(block, summary, causal));
      const Pattern seen = fixed_pattern(block, summary, causal);
      for (const int64_t n : {1, 7, 8, 37, 40}) {
        EXPECT_LT(deviation_from_pattern(*attention, n, seen), 1e-13)
            << sparse_spec(block, summary, causal) << ", N = " << n;
        EXPECT_LT(deviation_from_pattern(*attention, n, seen, scattered_mask(n)), 1e-13)
            << sparse_spec(block, summary, causal) << ", N = " << n << ", scattered padding";
      }
    }
  }
}

TEST(Sparse, IsSoftmaxWhereItSeesAll) {
  const Inputs in = make_inputs({40, 17}, 40);
  const torch::Tensor expected = attend(*make("standard"), in);
  EXPECT_LT(difference(attend(*make(sparse_spec(40, 0, false)), in), expected), 1e-13);
  EXPECT_LT(difference(attend(*make(sparse_spec(8, 7, false)), in), expected), 1e-13);
  EXPECT_LT(difference(attend(*make(sparse_spec(1, 0, false)), in), expected), 1e-13);
  EXPECT_GT(difference(attend(*make(sparse_spec(8, 6, false)), in), expected), 1e-3);
}

TEST(Sparse, CausalSeesNothingLater) {
  const auto attention = make(sparse_spec(8, 3, true));
  Inputs in = make_inputs({40}, 40);
  const torch::Tensor before = attend(*attention, in);
  in.k = in.k.clone();
  in.v = in.v.clone();
  in.k.narrow(2, 21, 19) += 5;
  in.v.narrow(2, 21, 19) += 5;
  const torch::Tensor change = (attend(*attention, in) - before).abs().amax({0, 1, 3});
  EXPECT_EQ(change.narrow(0, 0, 21).max().item<double>(), 0);
  EXPECT_GT(change.narrow(0, 21, 19).min().item<double>(), 1e-6);
}

// The block's log-sum-exp goes through the fused kernel in the type of q, and near a logit of 78
// the numbers of bfloat16 are 1/2 apart. All logits are equal here, so that each row is a mean of
// v.
TEST(Sparse, WeighsTheBlockExactlyInBfloat16) {
  Inputs in = make_inputs({40}, 40);
  in.q = torch::full_like(in.q, 6);
  in.k = torch::full_like(in.k, 6.5);
  const torch::Tensor column = torch::arange(40).remainder(8);
  in.v = column.gt(0).logical_and(column.lt(5)).view({1, 1, 40, 1}).expand_as(in.q).to(in.q);
  for (const bool causal : {false, true}) {
    const torch::Tensor expected =
        pattern_attention(in, pattern_matrix(fixed_pattern(8, 3, causal), 2, 40));
    const auto attention = make(sparse_spec(8, 3, causal), torch::kBFloat16);
    const Inputs cast{in.q.to(torch::kBFloat16), in.k.to(torch::kBFloat16),
                      in.v.to(torch::kBFloat16), in.mask};
    EXPECT_LT(difference(attend(*attention, cast), expected), 5e-3) << causal;
  }
}

TEST(Sparse, MoreSummaryColumnsThanTheBlockIsAUsageError) {
  EXPECT_THROW(make("sparse[block=16]"), UsageError);
  EXPECT_NO_THROW(make("sparse[block=16,summary=16]"));
}

TEST(Sparse, HugePaddingChangesNothing) {
  EXPECT_EQ(change_by_huge_padding(*make(sparse_spec(8, 3, false)), 29), 0);
  EXPECT_EQ(change_by_huge_padding(*make(sparse_spec(8, 3, true)), 29), 0);
}

TEST(Sparse, MemoryGrowsWithN) {
  for (const char* name : {"sparse[block=128,summary=4]", "sparse[causal=true,summary=4]"}) {
    for (const bool training : {false, true}) EXPECT_LT(memory_growth(name, training), 2.2);
  }
}

TEST(Sparse, CountsItsProducts) {
  // 4 blocks of 8 and one of 5, of whose last 3 of 8 columns none is there: of the others 4 columns
  // each, or 1.
  const int64_t vectors = 3 * 2 * 4 * 4;
  EXPECT_EQ(make(sparse_spec(8, 3, false))->flops(3, 37),
            vectors * (4 * 8 * (8 + 3 * 4 + 1) + 5 * (5 + 4 * 4)));
  // Causal: the summaries of the blocks before.
  EXPECT_EQ(make(sparse_spec(8, 3, true))->flops(3, 37),
            vectors * (8 * (8 + 12 + 16 + 20) + 5 * (5 + 16)));
  // One more position that sees all 38, and that the 37 see.
  EXPECT_EQ(make("sparse[block=8,summary=3,cls=open]")->flops(3, 38),
            vectors * (4 * 8 * (8 + 3 * 4 + 1) + 5 * (5 + 4 * 4) + 38 + 37));
  EXPECT_EQ(make(sparse_spec(64, 3, false))->flops(3, 37), make("standard")->flops(3, 37));
}

}  // namespace
}  // namespace lra
