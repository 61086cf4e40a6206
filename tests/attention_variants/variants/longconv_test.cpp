// Long convolutions against the double sum over positions.
#include "tests/attention_variants/mixers.h"

namespace lra {
namespace {

// y_t = Σ_s k_{t-s} u_s + Δ u_t, where tap `ahead` is of lag 0.
torch::Tensor longconv_sum(const Attention& attention, const torch::Tensor& u, int64_t ahead,
                           double squash) {
  const torch::Tensor raw = parameter(attention, "taps"), skip = parameter(attention, "skip");
  const torch::Tensor taps = raw.sign() * (raw.abs() - squash).clamp_min(0);  // [D,K]
  std::vector<torch::Tensor> rows;
  for (int64_t t = 0; t < u.size(1); ++t) {
    torch::Tensor sum = skip * u.select(1, t);
    for (int64_t s = 0; s < u.size(1); ++s) {
      const int64_t tap = t - s + ahead;
      if (tap >= 0) sum = sum + taps.select(1, tap) * u.select(1, s);
    }
    rows.push_back(sum);
  }
  return torch::stack(rows, 1);
}

TEST(LongConv, EqualsTheDoubleSum) {
  for (const auto& [options, ahead, squash] : {std::tuple{"init=1", 63, 0.0},
                                               {"bidirectional=false,init=1", 0, 0.0},
                                               {"init=0.002,squash=0.002", 63, 0.002}}) {
    const auto attention = mixer(fmt::format("longconv[{}]", options));
    expect_formula_at_lengths(*attention,
                              [&, ahead = ahead, squash = squash](const torch::Tensor& u) {
                                return longconv_sum(*attention, u, ahead, squash);
                              });
  }
}

TEST(LongConv, IsOneSidedWhereItIsCausal) {
  expect_causal("longconv[init=1]");
  expect_reads_ahead("longconv[init=1]");
}

TEST(LongConv, NamesItsSlowParameters) { expect_slow_parameters_exist("longconv"); }

TEST(LongConv, RefusesWhatIsLongerThanItsTaps) {
  const MixerRows in = mixer_rows({65}, 65);
  EXPECT_THROW(mixer("longconv")->forward(in.x, in.mask), Unsupported);
}

TEST(LongConv, DropsTapsInTrainingAlone) {
  const auto attention = mixer("longconv[init=1,dropout=0.5]");
  const MixerRows in = mixer_rows({24}, 24);
  EXPECT_TRUE(torch::equal(attention->forward(in.x, in.mask), attention->forward(in.x, in.mask)));
  attention->train();
  EXPECT_FALSE(torch::equal(attention->forward(in.x, in.mask), attention->forward(in.x, in.mask)));
}

// Nearly all taps would start below it, and stay there.
TEST(LongConv, ASquashBeyondTheTapsIsRefused) {
  EXPECT_THROW(mixer("longconv[squash=0.009]"), UsageError);
  EXPECT_NO_THROW(mixer("longconv[squash=0.009,init=0.003]"));
}

TEST(LongConv, MemoryGrowsLinearly) { expect_linear_memory("longconv"); }

}  // namespace
}  // namespace lra
