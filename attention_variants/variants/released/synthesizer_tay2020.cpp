// The "synthesizer" of LRA's released models: softmax attention with a learned bias of positions,
// out = softmax(Q Kᵀ / √d + R) V, R [H,Nmax,Nmax].
//
// google-research/long-range-arena, lra_benchmarks/models/synthesizer/synthesizer_attention.py,
// lines 76-161 and 304-310: what the configuration files say of modes reaches no code, so that the
// products stay. R is drawn within ±√(3 / (H Nmax)): Xavier's bound, whose fans count the heads.
// Cost: O(N² d) time, O(N²) memory, and as many parameters.
#include <cmath>

#include <fmt/format.h>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/blocks.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

struct SynthesizerTay2020Options {
  double dropout = 0;  // of the weights, in training

  template <class Fields>
  void fields(Fields& f) {
    f("dropout", dropout, between(0, 0.999));
  }
};

class SynthesizerTay2020 : public ProjectedAttention {
 public:
  SynthesizerTay2020(const AttentionContext& context, const SynthesizerTay2020Options& options)
      : ProjectedAttention(context), options_(options) {
    const int64_t heads = context.heads, length = context.max_length;
    const double bound = std::sqrt(3.0 / static_cast<double>(heads * length));
    r_ = register_parameter("r", torch::rand({heads, length, length}) * (2 * bound) - bound);
  }

  torch::Tensor attend(const torch::Tensor& q_given, const torch::Tensor& k_given,
                       const torch::Tensor& v_given, const torch::Tensor& mask) override {
    check_attend_inputs(q_given, k_given, v_given, mask);
    const int64_t length = q_given.size(2);
    if (length > context_.max_length) {
      throw Unsupported(fmt::format(
          "synthesizer_tay2020 was made for a length of at most {} (a bias for each pair of "
          "positions), not {}",
          context_.max_length, length));
    }
    const bool uniform = context_.padded_rows == PaddedRows::uniform;
    const auto read = [&](const torch::Tensor& x) {
      return uniform ? x : ops::zero_padding(x, mask);
    };
    const torch::Tensor q = read(q_given), k = read(k_given), v = read(v_given);
    const auto type = ops::wide_type(q.scalar_type());
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
    const torch::Tensor bias = r_.narrow(1, 0, length).narrow(2, 0, length),  // [H,N,N]
        logits = torch::matmul(q * scale, k.transpose(-2, -1)).to(type) + bias.to(type),
                        absent = mask.logical_not().unsqueeze(1);  // [B,1,N]
    torch::Tensor scores = logits.masked_fill(absent.unsqueeze(2), ops::reference::kAbsentLogit);
    // Equal logits that keep the gradient.
    if (uniform) scores = torch::where(absent.unsqueeze(3), logits - logits.detach(), scores);
    const torch::Tensor weights = ops::philox_dropout(
        torch::softmax(scores, -1).to(v.scalar_type()), options_.dropout, is_training());
    const torch::Tensor out = torch::matmul(weights, v);
    return uniform ? out : ops::zero_padding(out, mask);
  }

  bool length_invariant() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    return 4 * batch * context_.heads * length * length * context_.head_dim;
  }

 private:
  const SynthesizerTay2020Options options_;
  torch::Tensor r_;  // [H,Nmax,Nmax]
};

[[maybe_unused]] const bool synthesizer_tay2020_registered =
    register_attention<SynthesizerTay2020, SynthesizerTay2020Options>({
        .name = "synthesizer_tay2020",
        .title = "Synthesizer, LRA's release",
        .paper = "Tay et al., ICLR 2021 (LRA)",
        .complexity = "O(N²)",
        .state = "r [H,Nmax,Nmax]",
        .length_bound = true,
        .uniform_padding = true,
        .why_unrotated = "the released code has none",
        .peer = "long-range-arena",
        .released_form_of = "synthesizer",
    });

}  // namespace
}  // namespace lra
