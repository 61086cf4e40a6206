// Local convolutions against the sum over taps, and what a stack of them can see.
#include "tests/attention_variants/mixers.h"

namespace lra {
namespace {

// Σ_j W_j u[t + j - before] by loops over positions and taps.
torch::Tensor sum_over_taps(const Attention& attention, const torch::Tensor& u, int64_t before) {
  const torch::Tensor weight = parameter(attention, "weight");  // [D,1 or D,K]
  std::vector<torch::Tensor> rows;
  for (int64_t t = 0; t < u.size(1); ++t) {
    torch::Tensor sum = torch::zeros_like(u.select(1, 0));
    for (int64_t j = 0; j < weight.size(2); ++j) {
      const int64_t from = t + j - before;
      if (from < 0 || from >= u.size(1)) continue;
      const torch::Tensor tap = weight.select(2, j);
      sum = sum + (tap.size(1) == 1 ? u.select(1, from) * tap.squeeze(1)
                                    : u.select(1, from).matmul(tap.t()));
    }
    rows.push_back(sum);
  }
  return torch::stack(rows, 1);
}

TEST(LocalConv, EqualsTheSumOverTaps) {
  for (const auto& [options, before] : {std::pair{"kernel=1", 0},
                                        {"kernel=5", 2},
                                        {"kernel=31", 15},
                                        {"kernel=5,one_sided=true", 4},
                                        {"kernel=7,depthwise=false", 3},
                                        {"kernel=3,depthwise=false,one_sided=true", 2}}) {
    const auto attention = mixer(fmt::format("localconv[{}]", options));
    expect_formula_at_lengths(*attention, [&, before = before](const torch::Tensor& u) {
      return sum_over_taps(*attention, u, before);
    });
  }
}

TEST(LocalConv, IsOneSidedWhereItIsCausal) {
  expect_causal("localconv[kernel=5]");
  expect_causal("localconv[kernel=5,depthwise=false]");
  expect_reads_ahead("localconv[kernel=5]");
}

// Three layers of K = 5 see 3 * 2 positions to each side.
TEST(LocalConv, AStackSeesLayersTimesHalfTheKernel) {
  const auto attention = mixer("localconv[kernel=5]");
  torch::Tensor x = torch::zeros({1, 41, kMixerWidth}, torch::kDouble);
  x[0][20].fill_(1);
  const torch::Tensor mask = torch::ones({1, 41}, torch::kBool);
  torch::Tensor out = x;
  for (int layer = 0; layer < 3; ++layer) out = attention->forward(out, mask);
  // In float64 the convolution goes by transforms, whose rounding reaches everywhere.
  const torch::Tensor reached = out[0].abs().sum(-1).gt(1e-12);
  const torch::Tensor expected = (torch::arange(41) - 20).abs().le(6);
  EXPECT_TRUE(torch::equal(reached, expected));
}

TEST(LocalConv, TapsStartWithUnitGain) {
  const torch::Tensor weight =
      parameter(*mixer("localconv[kernel=101]", /*causal=*/false, /*width=*/64), "weight");
  EXPECT_EQ(weight.sizes(), (std::vector<int64_t>{64, 1, 101}));
  EXPECT_NEAR(weight.square().sum(2).mean().item<double>(), 1, 0.1);
}

TEST(LocalConv, RefusesEvenKernels) {
  EXPECT_THROW(mixer("localconv[kernel=4]"), UsageError);
  EXPECT_THROW(mixer("localconv[kernel=0]"), UsageError);
}

TEST(LocalConv, CountsItsProducts) {
  EXPECT_EQ(mixer("localconv[kernel=5]")->flops(3, 10), 3 * 10 * 2 * 5 * kMixerWidth);
  EXPECT_EQ(mixer("localconv[kernel=5,depthwise=false]")->flops(3, 10),
            3 * 10 * 2 * 5 * kMixerWidth * kMixerWidth);
}

TEST(LocalConv, MemoryGrowsLinearly) { expect_linear_memory("localconv"); }

}  // namespace
}  // namespace lra
