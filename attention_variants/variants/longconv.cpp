// Long convolution: y = k * u + Δ ⊙ u with taps k of their own for every lag of every channel, to
// both sides, which a soft threshold may draw to zero: k = sign(w) max(|w| - squash, 0).
//
// Fu et al., "Simple Hardware-Efficient Long Convolutions for Sequence Modeling", ICML 2023. Their
// files for the Long Range Arena (HazyResearch/safari, configs/experiment/lra) have squash and
// dropout 0.002 and 0.2 for ListOps, 0.003 and 0.2 for Text and Image, 0.004 and 0.1 for Retrieval,
// 0.001 and 0.3 for Pathfinder and Path-X, two kernels a channel, to one side but for the last two,
// and train the taps at a rate of their own without decay.
// Cost: O(N log N D) time; memory O(N D).
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/long_convolution.h"
#include "attention_variants/registry.h"
#include "attention_variants/sequence_mixer.h"

namespace lra {
namespace {

struct LongConvOptions {
  bool bidirectional = true;
  double init = 0.002;  // standard deviation of the taps
  double squash = 0;
  double dropout = 0;  // of the taps

  template <class Fields>
  void fields(Fields& f) {
    f("bidirectional", bidirectional);
    f("init", init, more_than(0));
    f("squash", squash, at_least(0));
    f("dropout", dropout, between(0, 0.999));
  }
  // What lies below the threshold at the start gets no gradient: of taps beyond 4 deviations 6 in
  // 100,000 are left.
  void settle() const {
    if (squash <= 4 * init) return;
    throw UsageError(
        fmt::format("attention longconv: squash should be at most 4 init = {:g}, not {:g}: nearly "
                    "all taps would start as zeros that are never trained",
                    4 * init, squash));
  }
};

class LongConvolution : public SequenceMixer {
 public:
  LongConvolution(const AttentionContext& context, const LongConvOptions& options)
      : SequenceMixer(context),
        options_(options),
        two_sided_(options.bidirectional && !context.causal) {
    const int64_t taps = two_sided_ ? 2 * context.max_length - 1 : context.max_length;
    taps_ = register_parameter("taps", torch::randn({context.width, taps}) * options.init);
    skip_ = register_parameter("skip", torch::randn({context.width}));
  }

  bool length_invariant() const override { return true; }
  // A dropout draws in every pass.
  bool capturable() const override { return options_.dropout == 0; }
  std::vector<std::string> slow_parameters() const override { return {"taps"}; }
  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    return ops::long_convolution_flops({.batch = batch, .length = length, .width = context_.width});
  }

 protected:
  GatedRows mix(const torch::Tensor& u, const torch::Tensor&) override {
    if (u.size(1) > context_.max_length) {
      throw Unsupported(fmt::format("longconv was made for {} positions, not {}",
                                    context_.max_length, u.size(1)));
    }
    torch::Tensor taps = taps_.to(u.scalar_type());
    if (options_.squash > 0) taps = at::softshrink(taps, options_.squash);
    if (options_.dropout > 0)
      taps = ops::philox_dropout_of_all(taps, options_.dropout, is_training());
    const int64_t ahead = two_sided_ ? context_.max_length - 1 : 0;
    return {.y = ops::long_convolution(context_.kernels,
                                       {u, ops::with_skip(taps, ahead, skip_), ahead})};
  }

 private:
  const LongConvOptions options_;
  const bool two_sided_;
  torch::Tensor taps_;  // [D,2Nmax-1] of lags 1-Nmax to Nmax-1, or [D,Nmax]
  torch::Tensor skip_;  // Δ [D]
};

[[maybe_unused]] const bool longconv_registered =
    register_attention<LongConvolution, LongConvOptions>({
        .name = "longconv",
        .title = "Long convolution",
        .paper = "Fu et al., ICML 2023",
        .complexity = "O(N log N) time; memory O(N)",
        .softmax = Softmax::different,
        .linear = true,
        .state = "taps [D,2Nmax-1], or [D,Nmax]; skip [D]",
        .length_bound = true,
        .can_be_causal = true,
        .why_unrotated = "it has no queries and keys",
        .peer = "the formula, in float64",
        .unread_in_causal_form = {{"bidirectional", true}},
    });

}  // namespace
}  // namespace lra
