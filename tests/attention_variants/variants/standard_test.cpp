// Standard attention: its two implementations against each other, its dropout, and what it holds in
// memory.
#include <fmt/format.h>

#include <cmath>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

const AttentionContext kStandardContext{
    .width = 64, .heads = 2, .head_dim = 32, .max_length = 4096, .seed = 0};

// Forward, and backward where `training`, with gradients released between runs.
int64_t standard_peak(const std::string& spec, int64_t n, bool training) {
  AttentionContext context = kStandardContext;
  context.max_length = n;
  return attend_peak(spec, context, 2, training);
}

TEST(Standard, FusedEqualsMaterialized) {
  for (const int64_t n : {1, 37, 200}) {
    Inputs in = make_inputs({n, n / 2, 0}, n);
    std::vector<torch::Tensor> results[2];
    int i = 0;
    for (const char* spec : {"standard", "standard[implementation=materialized]"}) {
      for (torch::Tensor* t : {&in.q, &in.k, &in.v}) *t = t->detach().requires_grad_();
      const torch::Tensor out = attend(*make(spec), in);
      (out * torch::cos(torch::arange(out.numel(), torch::kDouble).view_as(out))).sum().backward();
      results[i++] = {out, in.q.grad(), in.k.grad(), in.v.grad()};
    }
    for (size_t j = 0; j < 4; ++j)
      EXPECT_LT(difference(results[0][j], results[1][j]), 1e-12) << "N = " << n;
  }
}

TEST(Standard, PaddingInFrontAndBetweenIsPaddingToo) {
  // Padding behind the tokens has a way of its own; all other padding is this.
  Inputs in = make_inputs({40, 40, 40}, 40);
  in.mask = torch::stack(
      {torch::arange(40).ge(13), torch::arange(40).remainder(3).eq(0), torch::arange(40).lt(17)});
  EXPECT_LT(difference(attend(*make("standard"), in),
                       attend(*make("standard[implementation=materialized]"), in)),
            1e-12);
}

TEST(Standard, OfABatchOfPaddingAloneTheGradientsAreZero) {
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    Inputs in = make_inputs({0, 0}, 5, type);
    for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(true);
    const torch::Tensor out = attend(*make("standard", type), in);
    for (const torch::Tensor& gradient :
         torch::autograd::grad({out.sum()}, {in.q, in.k, in.v}, {}, /*retain_graph=*/std::nullopt,
                               /*create_graph=*/false, /*allow_unused=*/true))
      EXPECT_TRUE(gradient.defined() && gradient.eq(0).all().item<bool>()) << type;
  }
}

TEST(Standard, FusedHoldsLittleMoreForAPaddedBatch) {
  const auto attention = make("standard", torch::kFloat, kStandardContext);
  const auto peak = [&](const std::vector<int64_t>& lengths) {
    Inputs in = make_inputs(lengths, 2048, torch::kFloat, 2, 32);
    for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(true);
    return peak_bytes([&] { attend(*attention, in).sum().backward(); });
  };
  EXPECT_LT(peak({1000, 500, 2048, 800}),
            1.2 * static_cast<double>(peak({2048, 2048, 2048, 2048})));
}

class StandardDropout : public testing::TestWithParam<const char*> {};

TEST_P(StandardDropout, DropsWeightsInTrainingAlone) {
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const auto attention =
        make(fmt::format("standard[implementation={},dropout=0.5]", GetParam()), type);
    const Inputs in = make_inputs({64}, 64, type);
    const torch::Tensor expected = attend(*attention, in);
    EXPECT_LT(difference(expected, attend(*make("standard", type), in)),
              type == torch::kFloat ? 1e-6 : 1e-12);
    attention->train();
    EXPECT_GT(difference(attend(*attention, in), expected), 1e-2);
    // Kept weights are scaled up, so that the mean over many draws comes back.
    torch::Tensor mean = torch::zeros_like(expected);
    for (int i = 0; i < 2000; ++i) mean += attend(*attention, in) / 2000;
    EXPECT_LT((mean - expected).abs().mean().item<double>(), 0.01);
  }
}

// With equal weights and the unit matrix as values, the result is the weights.
TEST_P(StandardDropout, IsOfEachWeightByItself) {
  constexpr int64_t kLength = 300, kHeads = 2, kBatch = 3;
  constexpr double p = 0.25;
  const auto attention =
      make(fmt::format("standard[implementation={},dropout={}]", GetParam(), p), torch::kFloat,
           {.width = 8, .heads = kHeads, .head_dim = kLength, .max_length = kLength});
  attention->train();
  const torch::Tensor none = torch::zeros({kBatch, kHeads, kLength, kLength});
  const torch::Tensor weights = attention->attend(none, none, none + torch::eye(kLength),
                                                  torch::ones({kBatch, kLength}, torch::kBool)) *
                                kLength;
  const torch::Tensor kept = weights.gt(0);
  EXPECT_TRUE(
      torch::allclose(weights.masked_select(kept), torch::tensor(static_cast<float>(1 / (1 - p)))));
  // Of independent draws: their share, and that of equal neighbours along every dimension.
  const auto share_is = [](const torch::Tensor& of, double expected) {
    const double spread = std::sqrt(expected * (1 - expected) / static_cast<double>(of.numel()));
    EXPECT_NEAR(of.to(torch::kDouble).mean().item<double>(), expected, 5 * spread);
  };
  share_is(kept, 1 - p);
  for (int64_t dim = 0; dim < 4; ++dim) {
    for (const int64_t apart : {1, 16, 128}) {
      if (apart >= kept.size(dim)) continue;
      const int64_t count = kept.size(dim) - apart;
      share_is(kept.narrow(dim, 0, count).eq(kept.narrow(dim, apart, count)),
               p * p + (1 - p) * (1 - p));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Standard, StandardDropout, testing::Values("fused", "materialized"));

// An N x N would be many times what a pass holds without dropout.
TEST(Standard, FusedHoldsNoMatrixForItsDropout) {
  EXPECT_LT(standard_peak("standard[dropout=0.1]", 2048, /*training=*/true),
            1.05 * static_cast<double>(standard_peak("standard", 2048, /*training=*/true)));
}

TEST(Standard, FusedHoldsNoMatrix) {
  const int64_t n = 4096, matrix = 2 * 2 * n * n * 4;  // 256 MiB
  EXPECT_LT(standard_peak("standard", n, /*training=*/false), matrix / 20);
  EXPECT_LT(standard_peak("standard", n, /*training=*/true), matrix / 10);
  EXPECT_GT(standard_peak("standard[implementation=materialized]", 1024, /*training=*/false),
            2 * 2 * 1024 * 1024 * 4);
}

TEST(Standard, AnalyticBytesAreWhatTheAllocatorSees) {
  // Growth from N to 2N: the fused kernel also holds tiles of a fixed size a thread, which the
  // account leaves out.
  for (const char* spec :
       {"standard", "standard[dropout=0.1]", "standard[implementation=materialized]"}) {
    for (const bool training : {false, true}) {
      const auto account = [&](int64_t n) {
        return make(spec, torch::kFloat, kStandardContext)->analytic_bytes(2, n, 4, training);
      };
      const int64_t n = 1024, growth = standard_peak(spec, 2 * n, training) -
                                       standard_peak(spec, n, training);
      EXPECT_NEAR(static_cast<double>(growth) / static_cast<double>(account(2 * n) - account(n)), 1,
                  0.15)
          << spec << (training ? " training" : " inference");
    }
  }
}

}  // namespace
}  // namespace lra
