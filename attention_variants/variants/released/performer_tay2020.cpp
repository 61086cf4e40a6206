// The "performer" of LRA's released models beyond ListOps: features φ(x) = relu(x) + 1e-3 of the
// queries and keys themselves, out = φ(Q) (φ(K)ᵀ V) / (φ(Q)·Σ φ(K)), without any random matrix.
//
// google-research/long-range-arena, lra_benchmarks/models/performer/performer_attention.py, lines
// 163-197 and 262-309: the generalized kernel, deterministic, which the model's defaults choose. It
// masks nothing; the protocol that chooses it does not either. Cost: O(N d²) time, O(N d) memory.
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

struct PerformerTay2020Options {
  template <class Fields>
  void fields(Fields&) {}
};

class PerformerTay2020 : public ProjectedAttention {
 public:
  PerformerTay2020(const AttentionContext& context, const PerformerTay2020Options& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    const auto type = ops::wide_type(q.scalar_type());
    return ops::linear_attention(
        context_.kernels,
        {q, k, v, mask, torch::eye(q.size(3), q.options().dtype(type)), linear_options()});
  }

  bool length_invariant() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t d = context_.head_dim;
    return ops::linear_attention_bytes(context_.kernels, {batch, context_.heads, length, d, d,
                                                          element_size, true, linear_options()}) +
           d * d * std::max<int64_t>(element_size, 4);  // and the identity
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t d = context_.head_dim;
    return 4 * batch * context_.heads * length * d * (d + 1);
  }

 private:
  // Every feature is at least the offset, so that the denominator needs no bound but for a sample
  // without tokens.
  static ops::LinearAttentionOptions linear_options() {
    return {.map = ops::FeatureMap::relu, .offset = 1e-3, .denominator_min = 1e-30};
  }

  const PerformerTay2020Options options_;
};

[[maybe_unused]] const bool performer_tay2020_registered =
    register_attention<PerformerTay2020, PerformerTay2020Options>({
        .name = "performer_tay2020",
        .title = "Performer, LRA's release",
        .paper = "Tay et al., ICLR 2021 (LRA)",
        .complexity = "O(N)",
        .linear = true,
        .why_unrotated = "the released code has none",
        .peer = "long-range-arena",
        .released_form_of = "performer",
    });

}  // namespace
}  // namespace lra
