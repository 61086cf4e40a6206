// S4D: each channel goes through a state-space model of its own with a diagonal transition,
//   x_t = ā ⊙ x_{t-1} + b̄ u_t,  y_t = 2 Re(C x_t) + Δ u_t,
// computed as one convolution y = k * u + Δ ⊙ u, k_l = 2 Re Σ_n C_n b̄_n ā_n^l, of all positions.
// With two directions a second C makes the taps of positions behind, from lag 1 on.
//
// Gu et al., "On the Parameterization and Initialization of Diagonal State Space Models", NeurIPS
// 2022. Cost: O(N S D) for the taps, whatever the batch, and O(N log N D) time; memory O(N D).
#include <cmath>
#include <numbers>

#include "attention_variants/ops/long_convolution.h"
#include "attention_variants/registry.h"
#include "attention_variants/sequence_mixer.h"
#include "attention_variants/state_space/discretise.h"
#include "attention_variants/state_space/hippo.h"
#include "attention_variants/state_space/mode_taps.h"

namespace lra {
namespace {

using state_space::complex_of;
using state_space::Discretisation;

enum class S4DInit { lin, inv, legs, real };
constexpr auto names(S4DInit) { return std::array{"lin", "inv", "legs", "real"}; }

enum class StepForm { exp, softplus };
constexpr auto names(StepForm) { return std::array{"exp", "softplus"}; }

struct S4DOptions {
  S4DInit init = S4DInit::lin;
  int64_t state = 64;  // 2S
  double dt_min = 0.001, dt_max = 0.1;
  Discretisation discretisation = Discretisation::zoh;
  bool bidirectional = true;
  int64_t copies = 0;  // of A and B; 0: one a channel
  StepForm dt = StepForm::exp;

  template <class Fields>
  void fields(Fields& f) {
    f("init", init);
    f("state", state,
      Check{
          .holds = [](const json& n) { return n.get<int64_t>() >= 2 && n.get<int64_t>() % 2 == 0; },
          .expected = "even and at least 2"});
    f("dt_min", dt_min, more_than(0));
    f("dt_max", dt_max, more_than(0));
    f("discretisation", discretisation);
    f("bidirectional", bidirectional);
    f("copies", copies, at_least(0));
    f("dt", dt);
  }
  void settle() const {
    if (dt_min > dt_max)
      throw UsageError(fmt::format("attention s4d: dt_min should be at most dt_max, not {} and {}",
                                   dt_min, dt_max));
  }
};

// A and B at the start, complex128 [S].
struct Modes {
  torch::Tensor a, b;
};

Modes modes_of(S4DInit init, int64_t state) {
  const int64_t half = state / 2;
  const auto n = static_cast<double>(state);
  const torch::Tensor k = torch::arange(half, torch::kDouble), zero = torch::zeros_like(k);
  torch::Tensor real = torch::full_like(k, -0.5), imaginary = zero;
  torch::Tensor b = torch::ones({half}, torch::kComplexDouble);
  switch (init) {
    case S4DInit::lin:
      imaginary = -std::numbers::pi * k;
      break;
    case S4DInit::inv:
      imaginary = -n / std::numbers::pi * (n / (2 * k + 1) - 1);
      break;
    case S4DInit::legs: {
      const auto [eigenvalues, vectors] = state_space::diagonal_hippo(state);
      imaginary = torch::imag(eigenvalues);
      b = vectors.conj().t().matmul(
          torch::complex(state_space::hippo_input(state), torch::zeros({state}, torch::kDouble)));
      b = torch::complex(torch::real(b), torch::imag(b).clamp(-2, 2));
      break;
    }
    case S4DInit::real:
      real = -(k + 1);
  }
  return {torch::complex(real, imaginary), b};
}

class S4DAttention : public SequenceMixer {
 public:
  S4DAttention(const AttentionContext& context, const S4DOptions& options)
      : SequenceMixer(context),
        options_(options),
        two_sided_(options.bidirectional && !context.causal) {
    const int64_t width = context.width, half = options.state / 2,
                  copies = options.copies == 0 ? width : options.copies;
    if (width % copies != 0)
      throw UsageError(
          fmt::format("attention s4d: copies should divide the width {}, not {}", width, copies));
    const Modes start = modes_of(options.init, options.state);
    const auto repeated = [copies](const torch::Tensor& z) { return z.repeat({copies, 1}); };
    const auto add = [this](const char* name, const torch::Tensor& value) {
      return register_parameter(name, value.to(torch::kFloat).contiguous());
    };
    log_a_re_ = add("log_a_re", repeated((-torch::real(start.a)).log()));
    a_im_ = add("a_im", repeated(torch::imag(start.a)));
    b_ = add("b", state_space::parts_of(repeated(start.b)));
    c_ = add("c", torch::randn({two_sided_ ? 2 : 1, width, half, 2}) * std::numbers::sqrt2 / 2);
    const torch::Tensor step = state_space::log_uniform({width}, options.dt_min, options.dt_max);
    // Of softplus: from 40 on its inverse is the step itself, to the last digit.
    step_ = add("dt", options.dt == StepForm::exp
                          ? step.log()
                          : torch::where(step > 40, step, step.clamp_max(40).expm1().log()));
    skip_ = add("skip", torch::randn({width}));
  }

  bool length_invariant() const override { return true; }
  bool capturable() const override { return true; }
  std::vector<std::string> slow_parameters() const override {
    return {"log_a_re", "a_im", "b", "dt"};
  }
  json options() const override { return write_fields(options_); }

  /// Of the taps, real parts alone, 4 a mode, and of the convolution.
  int64_t flops(int64_t batch, int64_t length) const override {
    return 2 * c_.numel() * length +
           ops::long_convolution_flops({.batch = batch, .length = length, .width = context_.width});
  }

 protected:
  GatedRows mix(const torch::Tensor& u, const torch::Tensor&) override {
    const int64_t length = u.size(1);
    torch::Tensor taps = kernels(length, u.scalar_type());  // [1 or 2,D,N]
    if (two_sided_) {
      // Lag -1 is the second's first tap.
      taps = torch::cat({taps[1].narrow(1, 0, length - 1).flip(1), taps[0]}, 1);
    } else {
      taps = taps[0];
    }
    const int64_t ahead = two_sided_ ? length - 1 : 0;
    return {.y = ops::long_convolution(context_.kernels,
                                       {u, ops::with_skip(taps, ahead, skip_), ahead})};
  }

 private:
  // A [copies,S] -> [D,S], the copies side by side.
  torch::Tensor of_channels(const torch::Tensor& modes) const {
    return modes.repeat({context_.width / modes.size(0), 1});
  }

  // [1 or 2,D,N].
  torch::Tensor kernels(int64_t length, torch::ScalarType type) const {
    const torch::Tensor a =
        of_channels(torch::complex(-log_a_re_.to(torch::kDouble).exp(), a_im_.to(torch::kDouble)));
    const torch::Tensor raw = step_.to(torch::kDouble).unsqueeze(1),
                        step = options_.dt == StepForm::exp ? raw.exp() : at::softplus(raw);
    const auto [rate, gain] = state_space::discretise(a, step, options_.discretisation);
    const torch::Tensor weight = 2 * complex_of(c_) * (of_channels(complex_of(b_)) * gain);
    return state_space::mode_taps(rate, weight, length, type);
  }

  const S4DOptions options_;
  const bool two_sided_;
  torch::Tensor log_a_re_, a_im_;  // A = -exp(log_a_re) + i a_im [copies,S]
  torch::Tensor b_, c_;            // [copies,S,2], [1 or 2,D,S,2]
  torch::Tensor step_, skip_;      // dt as dt says, and Δ: [D]
};

[[maybe_unused]] const bool s4d_registered = register_attention<S4DAttention, S4DOptions>({
    .name = "s4d",
    .title = "S4D",
    .paper = "Gu et al., NeurIPS 2022",
    .complexity = "O(N (log N + S)) time; memory O(N)",
    .softmax = Softmax::different,
    .linear = true,
    .state = "log_a_re, a_im [copies,S]; b [copies,S,2]; c [2,D,S,2]; dt, skip [D]",
    .can_be_causal = true,
    .why_unrotated = "it has no queries and keys",
    .peer = "the formula, in float64",
    .unread_in_causal_form = {{"bidirectional", true}},
});

}  // namespace
}  // namespace lra
