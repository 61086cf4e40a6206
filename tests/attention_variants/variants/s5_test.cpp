// S5 against its recurrence, position by position, and its start against HiPPO.
#include "attention_variants/state_space/hippo.h"
#include "tests/attention_variants/mixers.h"

namespace lra {
namespace {

torch::Tensor s5_recurrence(const Attention& attention, const torch::Tensor& u) {
  const json options = attention.options();
  torch::Tensor poles = complex_parameter(attention, "transition");
  if (options["clip_eigs"])
    poles = torch::complex(torch::real(poles).minimum(torch::full({1}, -1e-4, torch::kDouble)),
                           torch::imag(poles));
  const torch::Tensor step =
      options["step_rescale"].get<double>() * parameter(attention, "log_step").exp();
  const torch::Tensor b = complex_parameter(attention, "b"), c = complex_parameter(attention, "c");
  torch::Tensor transition, gain;
  if (options["discretisation"] == "zoh") {
    transition = (poles * step).exp();
    gain = (transition - 1) / poles;
  } else {
    transition = (1 + poles * step / 2) / (1 - poles * step / 2);
    gain = step / (1 - poles * step / 2);
  }
  return recur({.transition = transition,
                .gain = gain,
                .b = b,
                .c = c,
                .skip = parameter(attention, "skip"),
                .factor = 2},
               u);
}

TEST(S5, EqualsItsRecurrence) {
  for (const char* options :
       {"state=8", "state=8,bidirectional=false", "state=6,discretisation=bilinear",
        "state=12,blocks=3,step_rescale=2", "state=4,c_init=complex_normal,clip_eigs=true"}) {
    SCOPED_TRACE(options);
    const auto attention = mixer(fmt::format("s5[{}]", options));
    expect_formula_at_lengths(*attention,
                              [&](const torch::Tensor& u) { return s5_recurrence(*attention, u); });
  }
}

TEST(S5, IsOneSidedWhereItIsCausal) {
  expect_causal("s5[state=8]");
  expect_reads_ahead("s5[state=8]");
}

TEST(S5, ClippedTransitionsDecay) {
  const auto attention = mixer("s5[state=4,clip_eigs=true,bidirectional=false]");
  {
    const torch::NoGradGuard no_grad;
    parameter(*attention, "transition").select(1, 0).fill_(5);
  }
  const MixerRows in = mixer_rows({24}, 24);
  expect_formula(*attention, in,
                 [&](const torch::Tensor& u) { return s5_recurrence(*attention, u); });
}

// The normal part of HiPPO-LegS has these eigenvectors, and with their conjugates no others.
TEST(S5, StartsFromHippo) {
  constexpr int64_t kStates = 16;
  const auto [eigenvalues, v] = state_space::diagonal_hippo(kStates);
  torch::Tensor normal = torch::zeros({kStates, kStates}, torch::kDouble);
  for (int64_t j = 0; j < kStates; ++j) {
    for (int64_t k = 0; k < kStates; ++k) {
      const double root = std::sqrt((2.0 * j + 1) * (2.0 * k + 1)),
                   hippo = j > k ? -root : (j == k ? -(j + 1.0) : 0.0);
      normal[j][k] = hippo + root / 2;
    }
  }
  const torch::Tensor complex = torch::complex(normal, torch::zeros_like(normal));
  EXPECT_LT(torch::view_as_real(complex.matmul(v) - v * eigenvalues).abs().max().item<double>(),
            1e-12);
  EXPECT_TRUE(torch::imag(eigenvalues).lt(0).all().item<bool>());
  EXPECT_LT(torch::imag(v[0]).abs().max().item<double>(), 1e-15);
  const torch::Tensor gram = v.conj().t().matmul(v);
  EXPECT_LT(torch::view_as_real(gram - torch::eye(kStates / 2, torch::kComplexDouble))
                .abs()
                .max()
                .item<double>(),
            1e-12);
  // Blocks repeat the eigenvalues of one.
  const torch::Tensor whole = complex_parameter(*mixer("s5[state=32,blocks=2]"), "transition");
  EXPECT_LT(torch::view_as_real(whole - eigenvalues.repeat({2})).abs().max().item<double>(), 1e-5);
}

// B is real before it is brought to the eigenbasis: a unitary V keeps its size, and half of it is
// in half of the states. C is complex: its two parts have one such deviation each.
TEST(S5, InputsAndOutputsStartAsPublished) {
  const auto size = [](const std::string& spec, const char* name) {
    const auto attention = mixer(spec, /*causal=*/false, /*width=*/96);
    return complex_parameter(*attention, name).abs().square().mean().item<double>();
  };
  EXPECT_NEAR(size("s5[state=64]", "b") * 64, 1, 0.1);
  EXPECT_NEAR(size("s5[state=64]", "c") * 64, 2, 0.1);
  EXPECT_NEAR(size("s5[state=64,c_init=lecun]", "c") * 64 * 96, 2, 0.1);
  EXPECT_NEAR(size("s5[state=64,c_init=complex_normal]", "c"), 1, 0.05);
}

TEST(S5, RefusesWhatDoesNotFit) {
  EXPECT_THROW(mixer("s5[state=7]"), UsageError);
  EXPECT_THROW(mixer("s5[state=8,blocks=3]"), UsageError);
  EXPECT_THROW(mixer("s5[dt_min=0.2]"), UsageError);
}

TEST(S5, OptionsThatContradictEachOtherAreRefusedBeforeAnyWork) {
  expect_refused_options(
      {"s5[state=6,blocks=2]", "s5[blocks=9223372036854775807]", "s5[dt_min=0.2]"});
}

TEST(S5, NamesItsSlowParameters) { expect_slow_parameters_exist("s5"); }
TEST(S5, MemoryGrowsLinearly) { expect_linear_memory("s5[state=8]"); }

}  // namespace
}  // namespace lra
