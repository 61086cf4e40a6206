// S4D against its recurrence, position by position, and its starts against the tables.
#include <numbers>

#include "attention_variants/ops/long_convolution.h"
#include "attention_variants/state_space/mode_taps.h"
#include "tests/attention_variants/mixers.h"

namespace lra {
namespace {

constexpr c10::complex<double> kOne{1, 0};

// The recurrence of all channels and modes: y_t = 2 Re(C x_t) + Δ u_t, and with two directions the
// states behind t, which begin at lag 1.
torch::Tensor s4d_recurrence(const Attention& attention, const torch::Tensor& u) {
  const json options = attention.options();
  const torch::Tensor dt = parameter(attention, "dt").unsqueeze(1),
                      step = options["dt"] == "exp" ? dt.exp() : (1 + dt.exp()).log();  // [D,1]
  const auto of_channels = [&](const torch::Tensor& z) {
    return z.repeat({u.size(2) / z.size(0), 1});
  };
  const torch::Tensor a = of_channels(torch::complex(-parameter(attention, "log_a_re").exp(),
                                                     parameter(attention, "a_im"))),
                      b = of_channels(complex_parameter(attention, "b")),
                      c = complex_parameter(attention, "c");  // [1 or 2,D,S]
  torch::Tensor transition, input;
  if (options["discretisation"] == "zoh") {
    transition = (a * step).exp();
    input = b * (transition - kOne) / a;
  } else {
    transition = (a * step / 2 + kOne) / (-a * step / 2 + kOne);
    input = b * step / (-a * step / 2 + kOne);
  }
  const auto add = [&](const torch::Tensor& state, int64_t t) {
    return transition * state + input * u.select(1, t).unsqueeze(-1);  // [B,D,S]
  };
  const auto read = [&](const torch::Tensor& state, int64_t direction) {
    return 2 * torch::real((c[direction] * state).sum(-1));
  };
  const int64_t length = u.size(1);
  const torch::Tensor none = torch::zeros({u.size(0), u.size(2), c.size(2)}, torch::kComplexDouble);
  std::vector<torch::Tensor> rows(static_cast<size_t>(length));
  torch::Tensor state = none;
  for (int64_t t = 0; t < length; ++t) {
    state = add(state, t);
    rows[static_cast<size_t>(t)] = read(state, 0) + parameter(attention, "skip") * u.select(1, t);
  }
  if (c.size(0) == 2) {
    state = none;
    for (int64_t t = length - 2; t >= 0; --t) {
      state = add(state, t + 1);
      rows[static_cast<size_t>(t)] = rows[static_cast<size_t>(t)] + read(state, 1);
    }
  }
  return torch::stack(rows, 1);
}

TEST(S4D, EqualsItsRecurrence) {
  for (const char* options :
       {"state=8", "state=8,bidirectional=false", "state=8,discretisation=bilinear",
        "state=6,init=inv", "state=12,init=legs,dt=softplus", "state=4,init=real,copies=2",
        "state=2,copies=1,dt_min=0.1,dt_max=0.5"}) {
    SCOPED_TRACE(options);
    const auto attention = mixer(fmt::format("s4d[{}]", options));
    expect_formula_at_lengths(
        *attention, [&](const torch::Tensor& u) { return s4d_recurrence(*attention, u); });
  }
}

TEST(S4D, IsOneSidedWhereItIsCausal) {
  expect_causal("s4d[state=8]");
  expect_reads_ahead("s4d[state=8]");
}

// Of N = 64, from S4's repository (src/models/hippo, dplr.py).
TEST(S4D, StartsAtThePublishedFrequencies) {
  const auto frequencies = [](const char* init) {
    const auto attention = mixer(fmt::format("s4d[init={}]", init));
    return std::get<0>((-parameter(*attention, "a_im")[0]).sort());
  };
  const torch::Tensor lin = frequencies("lin"), inv = frequencies("inv"),
                      legs = frequencies("legs");
  EXPECT_EQ(lin[0].item<double>(), 0);
  EXPECT_NEAR(lin[1].item<double>(), std::numbers::pi, 1e-6);
  EXPECT_NEAR(lin[31].item<double>(), 97.389, 1e-3);
  EXPECT_NEAR(inv[31].item<double>(), 1283.425, 1e-3);
  EXPECT_NEAR(inv[30].item<double>(), 414.227, 1e-3);
  EXPECT_NEAR(inv[0].item<double>(), 0.3234, 1e-4);
  EXPECT_NEAR(legs[0].item<double>(), 0.26386, 1e-5);
  EXPECT_NEAR(legs[1].item<double>(), 0.90586, 1e-5);
  EXPECT_NEAR(legs[31].item<double>(), 1303.274, 1e-3);
  const auto real = mixer("s4d[init=real]");
  EXPECT_EQ(parameter(*real, "a_im").abs().max().item<double>(), 0);
  EXPECT_LT(difference(parameter(*real, "log_a_re")[0].exp(), torch::arange(1, 33)), 1e-6);
  for (const char* init : {"lin", "inv", "legs"}) {
    const auto attention = mixer(fmt::format("s4d[init={}]", init));
    EXPECT_LT(difference(parameter(*attention, "log_a_re").exp(), torch::full({1}, 0.5)), 1e-7);
  }
}

// Slow modes through a thousand turns, whose gradients weigh lags up to the length.
TEST(ModeTaps, InFloatAreAsInDoubleAtLongLags) {
  torch::manual_seed(1);
  constexpr int64_t kLength = 3000;
  const torch::Tensor rates = torch::complex(-torch::rand({5, 6}, torch::kDouble) * 1e-3,
                                             torch::randn({5, 6}, torch::kDouble) * 2),
                      weights = torch::randn({2, 5, 6}, torch::kComplexDouble),
                      gradient = torch::randn({2, 5, kLength}, torch::kDouble);
  const auto by = [&](const auto& taps) {
    const torch::Tensor r = rates.detach().requires_grad_(), w = weights.detach().requires_grad_();
    const torch::Tensor out = taps(r, w);
    const auto of = torch::autograd::grad({out}, {r, w}, {gradient.to(out.scalar_type())});
    return std::vector<torch::Tensor>{out.detach().to(torch::kDouble), torch::view_as_real(of[0]),
                                      torch::view_as_real(of[1])};
  };
  const auto exact = by([&](const torch::Tensor& r, const torch::Tensor& w) {
    const torch::Tensor powers = (r.unsqueeze(-1) * torch::arange(kLength)).exp();
    return torch::real((w.unsqueeze(-1) * powers).sum(2));
  });
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const auto taps = by([&](const torch::Tensor& r, const torch::Tensor& w) {
      return state_space::mode_taps(r, w, kLength, type);
    });
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_LT(difference(taps[i], exact[i]) / exact[i].abs().max().item<double>(),
                type == torch::kFloat ? 1e-6 : 1e-12)
          << type << " " << i;
    }
  }
}

TEST(S4D, StepsAndOutputsStartAsPublished) {
  const auto attention = mixer("s4d[dt_min=0.01,dt_max=0.02]", /*causal=*/false, /*width=*/256);
  const torch::Tensor step = parameter(*attention, "dt").exp();
  EXPECT_GE(step.min().item<double>(), 0.01 * (1 - 1e-6));
  EXPECT_LE(step.max().item<double>(), 0.02 * (1 + 1e-6));
  const auto softplus = mixer("s4d[dt=softplus,dt_min=0.01,dt_max=0.02]");
  const auto long_steps = mixer("s4d[dt=softplus,dt_min=999,dt_max=1000]");
  EXPECT_GE(torch::softplus(parameter(*long_steps, "dt")).min().item<double>(), 999 * (1 - 1e-4));
  EXPECT_LE(torch::softplus(parameter(*long_steps, "dt")).max().item<double>(), 1000 * (1 + 1e-4));
  const torch::Tensor stored = parameter(*softplus, "dt");
  EXPECT_GE(torch::softplus(stored).min().item<double>(), 0.01 * (1 - 1e-4));
  EXPECT_LE(torch::softplus(stored).max().item<double>(), 0.02 * (1 + 1e-4));
  EXPECT_NEAR(complex_parameter(*attention, "c").abs().square().mean().item<double>(), 1, 0.05);
}

// A longer kernel begins with the shorter: what is cut from the end changes nothing before it.
TEST(S4D, ALongerSequenceBeginsAsTheShorterDoes) {
  const auto attention = mixer("s4d[bidirectional=false]");
  const MixerRows in = mixer_rows({50}, 50);
  const torch::Tensor whole = attention->forward(in.x, in.mask),
                      half = attention->forward(in.x.narrow(1, 0, 25), in.mask.narrow(1, 0, 25));
  EXPECT_LT(difference(half, whole.narrow(1, 0, 25)), 1e-12);
}

TEST(S4D, RefusesWhatDoesNotFit) {
  EXPECT_THROW(mixer("s4d[state=7]"), UsageError);
  EXPECT_THROW(mixer("s4d[copies=4]"), UsageError);
  EXPECT_THROW(mixer("s4d[dt_min=0.2]"), UsageError);
}

TEST(S4D, OptionsThatContradictEachOtherAreRefusedBeforeAnyWork) {
  expect_refused_options({"s4d[dt_min=0.2]"});
}

// Of 3 modes a channel, given as pairs, both kernels' real parts: one product over 2 * 3 numbers.
TEST(S4D, CountsTheRealPartsOfItsTapsAlone) {
  constexpr int64_t kLength = 20, kWidth = 8;
  const auto attention =
      make_attention(parse_attention("s4d[state=6,copies=1]"),
                     {.width = kWidth, .heads = 1, .head_dim = kWidth, .max_length = kLength});
  const int64_t convolution =
      ops::long_convolution_flops({.batch = 2, .length = kLength, .width = kWidth});
  EXPECT_EQ(attention->flops(2, kLength) - convolution, 2 * kWidth * kLength * 2 * (2 * 3));
}

TEST(S4D, NamesItsSlowParameters) { expect_slow_parameters_exist("s4d"); }
TEST(S4D, MemoryGrowsLinearly) { expect_linear_memory("s4d[state=8]"); }

}  // namespace
}  // namespace lra
