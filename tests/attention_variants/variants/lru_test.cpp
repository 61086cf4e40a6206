// Linear recurrent units against the recurrence, position by position, and their start on a ring.
#include "tests/attention_variants/mixers.h"

namespace lra {
namespace {

// λ, complex [P].
torch::Tensor transition_of(const Attention& attention) {
  return torch::complex(-parameter(attention, "nu").exp(), parameter(attention, "theta").exp())
      .exp();
}

torch::Tensor lru_recurrence(const Attention& attention, const torch::Tensor& u) {
  const torch::Tensor b = complex_parameter(attention, "b"), c = complex_parameter(attention, "c"),
                      transition = transition_of(attention);
  const torch::Tensor scale = attention.options()["normalise"]
                                  ? parameter(attention, "gamma").exp()
                                  : torch::ones({b.size(0)}, torch::kDouble);
  return recur({.transition = transition,
                .gain = scale,
                .b = b,
                .c = c,
                .skip = parameter(attention, "skip"),
                .factor = 1},
               u);
}

TEST(Lru, EqualsItsRecurrence) {
  for (const char* options : {"state=8", "state=5,bidirectional=true", "state=3,normalise=false",
                              "state=4,r_min=0.9,r_max=0.99,max_phase=0.3"}) {
    SCOPED_TRACE(options);
    const auto attention = mixer(fmt::format("lru[{}]", options));
    expect_formula_at_lengths(
        *attention, [&](const torch::Tensor& u) { return lru_recurrence(*attention, u); });
  }
}

TEST(Lru, IsOneSidedWhereItIsCausal) {
  expect_causal("lru[state=8,bidirectional=true]");
  expect_reads_ahead("lru[state=8,bidirectional=true]");
}

TEST(Lru, TransitionsStartOnTheRing) {
  const auto attention = mixer("lru[state=4000,r_min=0.4,r_max=0.9,max_phase=1.5]");
  const torch::Tensor transition = transition_of(*attention), size = transition.abs(),
                      phase = transition.angle();
  EXPECT_GE(size.min().item<double>(), 0.4 - 1e-6);
  EXPECT_LE(size.max().item<double>(), 0.9 + 1e-6);
  EXPECT_GE(phase.min().item<double>(), 0);
  EXPECT_LE(phase.max().item<double>(), 1.5 + 1e-6);
  // Uniform in area: the square of the modulus is uniform.
  EXPECT_NEAR(size.square().mean().item<double>(), (0.16 + 0.81) / 2, 0.01);
  EXPECT_LT(difference(parameter(*attention, "gamma").exp(), (1 - size.square()).sqrt()), 1e-5);
}

// What γ is for: white rows make states of the size of their inputs.
TEST(Lru, StatesAreOfTheSizeOfTheirInputs) {
  const auto attention = mixer("lru[state=64,r_min=0.5,r_max=0.9]");
  const torch::Tensor b = complex_parameter(*attention, "b"),
                      transition = transition_of(*attention),
                      scale = parameter(*attention, "gamma").exp();
  const torch::NoGradGuard no_grad;
  const torch::Tensor u = mixer_rows({2000}, 2000).x[0],
                      v = torch::complex(u, torch::zeros_like(u)).matmul(b.t());
  torch::Tensor state = torch::zeros({64}, torch::kComplexDouble),
                sum = torch::zeros({}, u.options());
  for (int64_t t = 0; t < 2000; ++t) {
    state = transition * state + scale * v[t];
    if (t >= 100) sum += state.abs().square().mean();
  }
  EXPECT_NEAR((sum / 1900 / v.abs().square().mean()).item<double>(), 1, 0.1);
}

TEST(Lru, RefusesRingsThatNoRadiusIsIn) {
  for (const char* ring : {"r_min=0.9,r_max=0.5", "r_max=0", "r_max=1e-200", "r_min=1"})
    EXPECT_THROW(mixer("lru[" + std::string(ring) + "]"), UsageError) << ring;
}

TEST(Lru, OptionsThatContradictEachOtherAreRefusedBeforeAnyWork) {
  expect_refused_options({"lru[r_min=0.9,r_max=0.5]", "lru[r_max=0]"});
}

TEST(Lru, NamesItsSlowParameters) {
  expect_slow_parameters_exist("lru");
  expect_slow_parameters_exist("lru[normalise=false]");
}
TEST(Lru, MemoryGrowsLinearly) { expect_linear_memory("lru[state=8]"); }

}  // namespace
}  // namespace lra
