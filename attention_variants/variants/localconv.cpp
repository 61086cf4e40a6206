// Local convolution: y_t = Σ_j W_j x_{t+j-⌊K/2⌋}, W_j diagonal (depthwise) or full [D,D]. L layers
// see L ⌊K/2⌋ positions to each side, no more: a control for what of a task is local.
//
// Miralles-González et al., "Locality is the key in long range arena", arXiv 2501.14850, 2025.
// Cost: O(N K D) time, depthwise, or O(N K D²); memory O(N D).
#include <cmath>

#include "attention_variants/ops/long_convolution.h"
#include "attention_variants/registry.h"
#include "attention_variants/sequence_mixer.h"

namespace lra {
namespace {

struct LocalConvOptions {
  int64_t kernel = 31;     // K, odd
  bool depthwise = true;   // each channel by itself
  bool one_sided = false;  // K positions up to its own

  template <class Fields>
  void fields(Fields& f) {
    f("kernel", kernel,
      Check{
          .holds = [](const json& k) { return k.get<int64_t>() > 0 && k.get<int64_t>() % 2 == 1; },
          .expected = "odd and at least 1"});
    f("depthwise", depthwise);
    f("one_sided", one_sided);
  }
};

class LocalConvolution : public SequenceMixer {
 public:
  LocalConvolution(const AttentionContext& context, const LocalConvOptions& options)
      : SequenceMixer(context), options_(options), one_sided_(options.one_sided || context.causal) {
    const int64_t inputs = options.depthwise ? 1 : context.width;
    weight_ =
        register_parameter("weight", torch::randn({context.width, inputs, options.kernel}) /
                                         std::sqrt(static_cast<double>(options.kernel * inputs)));
  }

  bool length_invariant() const override { return true; }
  bool capturable() const override { return true; }
  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    return 2 * batch * length * weight_.numel();
  }

 protected:
  GatedRows mix(const torch::Tensor& u, const torch::Tensor&) override {
    const torch::Tensor weight = weight_.to(u.scalar_type());
    const int64_t ahead = one_sided_ ? 0 : options_.kernel / 2;
    if (options_.depthwise) {
      // As of torch's Conv1d: a weight's first tap is of the earliest position.
      return {.y = ops::long_convolution(context_.kernels, {u, weight.squeeze(1).flip(1), ahead})};
    }
    const torch::Tensor columns =
        at::constant_pad_nd(u.transpose(1, 2), {options_.kernel - 1 - ahead, ahead});
    return {.y = at::conv1d(columns, weight).transpose(1, 2)};
  }

 private:
  const LocalConvOptions options_;
  const bool one_sided_;
  torch::Tensor weight_;  // [D,1,K] or [D,D,K]
};

[[maybe_unused]] const bool localconv_registered =
    register_attention<LocalConvolution, LocalConvOptions>({
        .name = "localconv",
        .title = "Local convolution",
        .paper = "Miralles-González et al., arXiv 2025",
        .complexity = "O(N K)",
        .softmax = Softmax::different,
        .linear = true,
        .state = "weight [D,1,K], or [D,D,K]",
        .can_be_causal = true,
        .why_unrotated = "it has no queries and keys",
        .peer = "the formula, in float64",
        .moves_in_causal_form = {{"one_sided", false}},
        .unread_in_causal_form = {{"one_sided", false}},
    });

}  // namespace
}  // namespace lra
