// Standard attention: its two implementations against each other, its dropout, and what it holds in
// memory.
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

constexpr AttentionContext kContext{
    .width = 64, .heads = 2, .head_dim = 32, .max_length = 4096, .seed = 0};

// Forward, and backward where `training`, with gradients released between runs.
int64_t peak_of(const std::string& spec, int64_t n, bool training) {
  AttentionContext context = kContext;
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

TEST(Standard, FusedHoldsLittleMoreForAPaddedBatch) {
  const auto attention = make("standard", torch::kFloat, kContext);
  const auto peak = [&](const std::vector<int64_t>& lengths) {
    Inputs in = make_inputs(lengths, 2048, torch::kFloat, 2, 32);
    for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(true);
    return peak_bytes([&] { attend(*attention, in).sum().backward(); });
  };
  EXPECT_LT(peak({1000, 500, 2048, 800}),
            1.2 * static_cast<double>(peak({2048, 2048, 2048, 2048})));
}

TEST(Standard, FusedRecordsThatItRunsWithoutDropout) {
  EXPECT_EQ(make("standard[dropout=0.1]")->options(),
            json::parse(R"({"implementation": "fused", "dropout": 0.0})"));
  EXPECT_EQ(make("standard[implementation=materialized,dropout=0.1]")->options().at("dropout"),
            0.1);
}

TEST(Standard, MaterializedDropsWeightsInTrainingAlone) {
  const auto attention = make("standard[implementation=materialized,dropout=0.5]");
  const Inputs in = make_inputs({64}, 64);
  const torch::Tensor expected = attend(*attention, in);
  EXPECT_LT(difference(expected, attend(*make("standard"), in)), 1e-12);
  attention->train();
  EXPECT_GT(difference(attend(*attention, in), expected), 1e-2);
  // Kept weights are scaled up, so that the mean over many draws comes back.
  torch::Tensor mean = torch::zeros_like(expected);
  for (int i = 0; i < 2000; ++i) mean += attend(*attention, in) / 2000;
  EXPECT_LT((mean - expected).abs().mean().item<double>(), 0.01);
}

TEST(Standard, FusedHoldsNoMatrix) {
  const int64_t n = 4096, matrix = 2 * 2 * n * n * 4;  // 256 MiB
  EXPECT_LT(peak_of("standard", n, /*training=*/false), matrix / 20);
  EXPECT_LT(peak_of("standard", n, /*training=*/true), matrix / 10);
  EXPECT_GT(peak_of("standard[implementation=materialized]", 1024, /*training=*/false),
            2 * 2 * 1024 * 1024 * 4);
}

TEST(Standard, AnalyticBytesAreWhatTheAllocatorSees) {
  // Growth from N to 2N: the fused kernel also holds tiles of a fixed size a thread, which the
  // account leaves out.
  for (const char* spec : {"standard", "standard[implementation=materialized]"}) {
    for (const bool training : {false, true}) {
      const auto account = [&](int64_t n) {
        return make(spec, torch::kFloat, kContext)->analytic_bytes(2, n, 4, training);
      };
      const int64_t n = 1024, growth = peak_of(spec, 2 * n, training) - peak_of(spec, n, training);
      EXPECT_NEAR(static_cast<double>(growth) / static_cast<double>(account(2 * n) - account(n)), 1,
                  0.15)
          << spec << (training ? " training" : " inference");
    }
  }
}

}  // namespace
}  // namespace lra
