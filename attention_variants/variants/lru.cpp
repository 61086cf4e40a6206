// Linear recurrent unit: x_t = λ ⊙ x_{t-1} + γ ⊙ B u_t with complex λ inside the unit circle,
// λ = exp(-e^ν + i e^θ), and y_t = Re(C x_t) + Δ ⊙ u_t. With two directions, which the paper uses
// without saying how they are joined, a second C reads the states of the reversed sequence.
//
// Orvieto et al., "Resurrecting Recurrent Neural Networks for Long Sequences", ICML 2023.
// Cost: O(N P D) time; memory O(N D) by the own kernel, O(N P log N) by LibTorch's operators.
#include <cmath>

#include "attention_variants/ops/diagonal_scan.h"
#include "attention_variants/registry.h"
#include "attention_variants/sequence_mixer.h"

namespace lra {
namespace {

struct LruOptions {
  int64_t state = 128;  // P
  double r_min = 0, r_max = 1, max_phase = 6.28;
  bool bidirectional = false;
  bool normalise = true;  // by γ

  template <class Fields>
  void fields(Fields& f) {
    f("state", state, at_least(1));
    f("r_min", r_min, between(0, 1));
    f("r_max", r_max, between(0, 1));
    f("max_phase", max_phase, more_than(0));
    f("bidirectional", bidirectional);
    f("normalise", normalise);
  }
  void settle() const {
    if (r_min > r_max)
      throw UsageError(
          fmt::format("attention lru: r_min should be at most r_max, not {} and {}", r_min, r_max));
    if (r_max * r_max == 0 || r_min >= 1) {
      throw UsageError(
          fmt::format("attention lru: r_max should be above 0 and r_min below 1, as radii have "
                      "logarithms, not {} and {}",
                      r_max, r_min));
    }
  }
};

class LruAttention : public SequenceMixer {
 public:
  LruAttention(const AttentionContext& context, const LruOptions& options)
      : SequenceMixer(context),
        options_(options),
        two_sided_(options.bidirectional && !context.causal) {
    const double low = options.r_min * options.r_min, high = options.r_max * options.r_max;
    const int64_t states = options.state, width = context.width;
    const auto add = [this](const char* name, const torch::Tensor& value) {
      return register_parameter(name, value.to(torch::kFloat).contiguous());
    };
    // Uniform over the ring; a draw of exactly 0 or 1 would have no logarithm.
    const auto draw = [&] { return torch::rand({states}, torch::kDouble).clamp(1e-12, 1 - 1e-12); };
    nu_ = add("nu", (-0.5 * (draw() * (high - low) + low).log()).log());
    theta_ = add("theta", (options.max_phase * draw()).log());
    if (options.normalise) {
      const torch::Tensor size = (-nu_.detach().to(torch::kDouble).exp()).exp();
      gamma_ = add("gamma", (1 - size * size).sqrt().log());
    }
    b_ = add("b", torch::randn({states, width, 2}) / std::sqrt(2.0 * static_cast<double>(width)));
    c_ = add("c", torch::randn({two_sided_ ? 2 : 1, width, states, 2}) /
                      std::sqrt(static_cast<double>(states)));
    skip_ = add("skip", torch::randn({width}));
  }

  bool length_invariant() const override { return true; }
  bool capturable() const override { return true; }
  std::vector<std::string> slow_parameters() const override {
    if (options_.normalise) return {"nu", "theta", "gamma", "b"};
    return {"nu", "theta", "b"};
  }
  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    return ops::diagonal_scan_flops(
        {.batch = batch, .length = length, .width = context_.width, .states = options_.state},
        c_.size(0));
  }

 protected:
  GatedRows mix(const torch::Tensor& u, const torch::Tensor&) override {
    const auto type = u.scalar_type();
    const torch::Tensor size = (-nu_.to(torch::kDouble).exp()).exp(),
                        phase = theta_.to(torch::kDouble).exp();
    torch::Tensor input = b_.to(type).permute({2, 0, 1});  // [2,P,D]
    if (options_.normalise) input = gamma_.to(type).exp().unsqueeze(1) * input;
    const auto output = [&](int64_t direction) {
      const torch::Tensor c = c_[direction].to(type);
      return torch::cat({c.select(2, 0), -c.select(2, 1)}, 1);
    };
    return {.y = ops::diagonal_scan(
                context_.kernels,
                {.u = u,
                 .transition = torch::stack({size * phase.cos(), size * phase.sin()}).to(type),
                 .input = input.flatten(0, 1),
                 .skip = skip_.to(type),
                 .output = output(0),
                 .output_back = two_sided_ ? output(1) : torch::Tensor()})};
  }

 private:
  const LruOptions options_;
  const bool two_sided_;
  torch::Tensor nu_, theta_, gamma_;  // [P]
  torch::Tensor b_, c_;               // [P,D,2], [1 or 2,D,P,2]
  torch::Tensor skip_;                // Δ [D]
};

[[maybe_unused]] const bool lru_registered = register_attention<LruAttention, LruOptions>({
    .name = "lru",
    .title = "Linear recurrent unit",
    .paper = "Orvieto et al., ICML 2023",
    .complexity = "O(N P)",
    .softmax = Softmax::different,
    .linear = true,
    .state = "nu, theta, gamma [P]; b [P,D,2]; c [1,D,P,2]; skip [D]",
    .can_be_causal = true,
    .why_unrotated = "it has no queries and keys",
    .peer = "lru-pytorch",
    .unread_in_causal_form = {{"bidirectional", true}},
});

}  // namespace
}  // namespace lra
