// Longformer attention against softmax over its band and global tokens, its limits, and what it
// holds in memory.
#include "tests/attention_variants/pattern.h"

namespace lra {
namespace {

Pattern band(int64_t window, int64_t global_tokens) {
  return [=](int64_t, int64_t i, int64_t j) {
    return std::abs(i - j) <= window / 2 || i < global_tokens || j < global_tokens;
  };
}

std::string longformer_spec(int64_t window, int64_t global_tokens) {
  return "longformer[window=" + std::to_string(window) +
         ",global_tokens=" + std::to_string(global_tokens) + "]";
}

TEST(Longformer, EqualsSoftmaxOverTheBandAndTheGlobalTokens) {
  for (const int64_t window : {2, 6, 16, 40}) {
    for (const int64_t global_tokens : {0, 1, 5}) {
      const auto attention = make(longformer_spec(window, global_tokens));
      for (const int64_t n : {1, 4, 23, 48, 61}) {
        const Pattern seen = band(window, global_tokens);
        EXPECT_LT(deviation_from_pattern(*attention, n, seen), 1e-13)
            << longformer_spec(window, global_tokens) << ", N = " << n;
        EXPECT_LT(deviation_from_pattern(*attention, n, seen, scattered_mask(n)), 1e-13)
            << longformer_spec(window, global_tokens) << ", N = " << n << ", scattered padding";
      }
    }
  }
}

TEST(Longformer, LongWindowsAndManyBlocks) {
  // Blocks of 128 queries, with a stretch of keys that is not a multiple of them.
  EXPECT_LT(deviation_from_pattern(*make(longformer_spec(300, 3)), 701, band(300, 3)), 1e-13);
}

TEST(Longformer, IsSoftmaxWhereTheWindowHoldsAll) {
  const Inputs in = make_inputs({40, 17}, 40);
  const torch::Tensor expected = attend(*make("standard"), in);
  EXPECT_LT(difference(attend(*make(longformer_spec(78, 0)), in), expected), 1e-13);
  EXPECT_GT(difference(attend(*make(longformer_spec(76, 0)), in), expected), 1e-6);
  EXPECT_LT(difference(attend(*make(longformer_spec(2, 40)), in), expected), 1e-13);
  EXPECT_GT(difference(attend(*make(longformer_spec(2, 20)), in), expected), 1e-3);
}

TEST(Longformer, TheWindowIsHalfToEachSideAndThePositionItself) {
  // 7 positions seen at window 6: a change at distance 4 is not.
  const auto attention = make(longformer_spec(6, 0));
  Inputs in = make_inputs({60}, 60);
  const torch::Tensor before = attend(*attention, in);
  in.v = in.v.clone();
  in.v.select(2, 30) += 1;
  const torch::Tensor changed =
      (attend(*attention, in) - before).abs().amax({0, 1, 3}).gt(1e-12).nonzero().flatten();
  EXPECT_TRUE(torch::equal(changed, torch::arange(27, 34)));
}

TEST(Longformer, AnOddWindowIsAUsageError) {
  EXPECT_THROW(make("longformer[window=7]"), UsageError);
  EXPECT_THROW(make("longformer[window=0]"), UsageError);
}

TEST(Longformer, AnOddWindowThatCountsThePositionIsAsFarToBothSides) {
  const Inputs in = make_inputs({60, 23}, 60);
  const auto attention = make("longformer[window=7,window_form=counted]");
  EXPECT_EQ(difference(attend(*attention, in), attend(*make(longformer_spec(6, 0)), in)), 0);
  const torch::Tensor alone = attend(*make("longformer[window=1,window_form=counted]"), in);
  EXPECT_LT(difference(alone, in.v * in.mask.unsqueeze(1).unsqueeze(-1)), 1e-13);
}

TEST(Longformer, HugePaddingChangesNothing) {
  EXPECT_EQ(change_by_huge_padding(*make(longformer_spec(4, 0)), 29), 0);
  EXPECT_EQ(change_by_huge_padding(*make(longformer_spec(4, 3)), 29), 0);
}

TEST(Longformer, NanStaysInItsSample) {
  for (const int64_t n : {41, 48}) {
    for (const char* options :
         {"window=8", "window=8,dropout=0.2", "window=40,global_tokens=2,dropout=0.2"})
      expect_nan_stays_in_its_sample("longformer[" + std::string(options) + "]", n);
  }
}

TEST(Longformer, TakesNoSampleWithADropout) {
  const auto attention = make("longformer[window=8,dropout=0.2]");
  attention->train();
  const Inputs none = make_inputs({}, 41);
  EXPECT_EQ(attend(*attention, none).sizes(), none.q.sizes());
}

TEST(Longformer, MemoryGrowsWithN) {
  for (const char* name : {"longformer", "longformer[window=64,global_tokens=8]"}) {
    for (const bool training : {false, true}) EXPECT_LT(memory_growth(name, training), 2.2);
  }
}

TEST(Longformer, HoldsNoMaskOverPositionsAndWindow) {
  // A byte for each position and each of the 257 that it sees would be 8 times q, a float 32 times.
  const int64_t n = 32768;
  const auto attention = make("longformer", torch::kFloat,
                              {.width = 8, .heads = 1, .head_dim = 8, .max_length = n, .seed = 0});
  const Inputs in = make_inputs({n}, n, torch::kFloat, 1, 8);
  const torch::NoGradGuard no_grad;
  EXPECT_LT(peak_bytes([&] { attend(*attention, in); }), 12 * in.q.numel() * 4);
}

TEST(Longformer, CountsTheProductsOfItsBlocks) {
  // 41 positions, window 8: 5 global rows of all keys; then tiles of 16, 16 and 4 queries with the
  // 5 global keys and those from 4 before to 4 behind them.
  EXPECT_EQ(make(longformer_spec(8, 5))->flops(2, 41),
            2 * 2 * 4 * 4 * (5 * 41 + 16 * (5 + 20) + 16 * (5 + 24) + 4 * (5 + 8)));
  EXPECT_EQ(make(longformer_spec(256, 0))->flops(2, 41), make("standard")->flops(2, 41));
}

}  // namespace
}  // namespace lra
