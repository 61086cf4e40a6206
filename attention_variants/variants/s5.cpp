// S5: one state-space model with a diagonal transition for all channels,
//   x_t = Λ̄ ⊙ x_{t-1} + B̄ u_t,  y_t = 2 Re(C x_t) + Δ ⊙ u_t,
// whose P states stand for 2P, the others being their conjugates. With two directions a second C
// reads the states of the reversed sequence; both include the present position.
//
// Smith et al., "Simplified State Space Layers for Sequence Modeling", ICLR 2023.
// Cost: O(N P D) time; memory O(N D) by the own kernel, O(N P log N) by LibTorch's operators.
#include <cmath>
#include <limits>

#include "attention_variants/ops/diagonal_scan.h"
#include "attention_variants/registry.h"
#include "attention_variants/sequence_mixer.h"
#include "attention_variants/state_space/discretise.h"
#include "attention_variants/state_space/hippo.h"

namespace lra {
namespace {

using state_space::complex_of;
using state_space::Discretisation;

enum class S5Output { trunc, lecun, complex_normal };
constexpr auto names(S5Output) { return std::array{"trunc", "lecun", "complex_normal"}; }

struct S5Options {
  int64_t state = 64;  // 2P
  int64_t blocks = 1;  // of the start's HiPPO matrix
  Discretisation discretisation = Discretisation::zoh;
  bool bidirectional = true;
  double dt_min = 0.001, dt_max = 0.1;
  S5Output c_init = S5Output::trunc;
  double step_rescale = 1;
  bool clip_eigs = false;

  template <class Fields>
  void fields(Fields& f) {
    f("state", state, at_least(2));
    f("blocks", blocks, at_least(1));
    f("discretisation", discretisation);
    f("bidirectional", bidirectional);
    f("dt_min", dt_min, more_than(0));
    f("dt_max", dt_max, more_than(0));
    f("c_init", c_init);
    f("step_rescale", step_rescale, more_than(0));
    f("clip_eigs", clip_eigs);
  }
  void settle() const {
    if (blocks > state || state % (2 * blocks) != 0) {
      throw UsageError(
          fmt::format("attention s5: state should be a multiple of twice the blocks {}, not {}",
                      blocks, state));
    }
    if (dt_min > dt_max)
      throw UsageError(fmt::format("attention s5: dt_min should be at most dt_max, not {} and {}",
                                   dt_min, dt_max));
  }
};

// Normal within two standard deviations, of standard deviation `deviation` after the cut.
torch::Tensor truncated_normal(at::IntArrayRef sizes, double deviation) {
  constexpr double kCutDeviation = 0.87962566103423978;  // of a unit normal within [-2,2]
  torch::Tensor x = torch::empty(sizes, torch::kDouble);
  // By the inverse of the normal distribution function.
  const double reach = std::erf(2 / std::sqrt(2.0));
  return torch::erfinv(x.uniform_(-reach, reach)) * (std::sqrt(2.0) * deviation / kCutDeviation);
}

class S5Attention : public SequenceMixer {
 public:
  S5Attention(const AttentionContext& context, const S5Options& options)
      : SequenceMixer(context),
        options_(options),
        two_sided_(options.bidirectional && !context.causal) {
    const int64_t width = context.width, state = options.state, block = state / options.blocks;
    const state_space::DiagonalHippo hippo = state_space::diagonal_hippo(block);
    const auto add = [this](const char* name, const torch::Tensor& value) {
      return register_parameter(name, value.to(torch::kFloat).contiguous());
    };
    transition_ =
        add("transition", state_space::parts_of(hippo.eigenvalues.repeat({options.blocks})));
    const torch::Tensor &v = hippo.eigenvectors,  // of one block [2P/blocks,P/blocks]
        adjoint = v.conj().resolve_conj().t();
    const torch::Tensor input =
        truncated_normal({options.blocks, block, width}, 1 / std::sqrt(state));
    b_ = add("b", state_space::parts_of(torch::matmul(adjoint, as_complex(input)).flatten(0, 1)));
    c_ = add("c", start_of_output(v));
    log_step_ = add("log_step",
                    state_space::log_uniform({state / 2}, options.dt_min, options.dt_max).log());
    skip_ = add("skip", torch::randn({width}));
  }

  bool length_invariant() const override { return true; }
  bool capturable() const override { return true; }
  std::vector<std::string> slow_parameters() const override {
    return {"transition", "b", "log_step"};
  }
  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    return ops::diagonal_scan_flops(
        {.batch = batch, .length = length, .width = context_.width, .states = options_.state / 2},
        c_.size(0));
  }

 protected:
  GatedRows mix(const torch::Tensor& u, const torch::Tensor&) override {
    const auto type = u.scalar_type();
    torch::Tensor poles = complex_of(transition_);
    if (options_.clip_eigs)
      poles = torch::complex(torch::real(poles).clamp_max(-1e-4), torch::imag(poles));
    const torch::Tensor step = options_.step_rescale * log_step_.to(torch::kDouble).exp();
    const auto [log_transition, gain] =
        state_space::discretise(poles, step, options_.discretisation);
    const auto stacked = [type](const torch::Tensor& z, double imaginary_sign, int64_t dim) {
      return torch::cat({torch::real(z), imaginary_sign * torch::imag(z)}, dim).to(type);
    };
    const torch::Tensor transition = log_transition.exp();
    const torch::Tensor c = 2 * complex_of(c_);
    return {.y = ops::diagonal_scan(
                context_.kernels,
                {.u = u,
                 .transition = stacked(transition, 1, 0).view({2, -1}),
                 .input = stacked(gain.unsqueeze(1) * complex_of(b_), 1, 0),
                 .skip = skip_.to(type),
                 .output = stacked(c[0], -1, 1),
                 .output_back = two_sided_ ? stacked(c[1], -1, 1) : torch::Tensor()})};
  }

 private:
  static torch::Tensor as_complex(const torch::Tensor& real) {
    return torch::complex(real, torch::zeros_like(real));
  }

  // [1 or 2,D,P,2]: C V of a complex C [D,2P] that is drawn, or C V itself.
  torch::Tensor start_of_output(const torch::Tensor& v) const {
    const int64_t directions = two_sided_ ? 2 : 1, width = context_.width, state = options_.state,
                  blocks = options_.blocks;
    if (options_.c_init == S5Output::complex_normal)
      return torch::randn({directions, width, state / 2, 2}) * std::sqrt(0.5);
    const double fan_in = options_.c_init == S5Output::trunc ? 1 : static_cast<double>(width);
    const double deviation = 1 / std::sqrt(static_cast<double>(state) * fan_in);
    const auto draw = [&] {
      return truncated_normal({directions, width, blocks, state / blocks}, deviation);
    };
    const torch::Tensor real = draw(), drawn = torch::complex(real, draw());
    return state_space::parts_of(torch::matmul(drawn.unsqueeze(-2), v).squeeze(-2).flatten(2));
  }

  const S5Options options_;
  const bool two_sided_;
  torch::Tensor transition_;  // Λ [P,2]
  torch::Tensor b_, c_;       // V⁻¹ B [P,D,2], C V [1 or 2,D,P,2]
  torch::Tensor log_step_;    // [P]
  torch::Tensor skip_;        // Δ [D]
};

[[maybe_unused]] const bool s5_registered = register_attention<S5Attention, S5Options>({
    .name = "s5",
    .title = "S5",
    .paper = "Smith et al., ICLR 2023",
    .complexity = "O(N P)",
    .softmax = Softmax::different,
    .linear = true,
    .state = "transition [P,2]; b [P,D,2]; c [2,D,P,2]; log_step [P]; skip [D]",
    .can_be_causal = true,
    .why_unrotated = "it has no queries and keys",
    .peer = "s5-pytorch",
    .unread_in_causal_form = {{"bidirectional", true}},
});

}  // namespace
}  // namespace lra
