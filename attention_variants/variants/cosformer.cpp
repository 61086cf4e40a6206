// cosFormer: out = φ(Q) (φ(K)ᵀ V) / max(φ(Q)·Σ φ(K), 1e-6) with φ(x) at position i of M =
// [relu(x) sin(πi/2M); relu(x) cos(πi/2M)], so that φ(q_i)·φ(k_j) = relu(q_i)·relu(k_j)
// cos(π(i-j)/2M). Positions are counted from 1 among a sample's real tokens, and M is their number.
//
// Qin et al., "cosFormer: Rethinking Softmax in Attention", ICLR 2022. Cost: O(N d²) time, O(N d)
// memory.
#include <numbers>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

constexpr double kCosformerLeast = 1e-6;  // of the denominator

struct CosformerOptions {
  template <class Fields>
  void fields(Fields&) {}
};

// sin and cos of πi/2M: mask [B,N] -> [B,N,2], at least in float32: bfloat16 does not count beyond
// 256, nor tell neighbours apart.
torch::Tensor phases(const torch::Tensor& mask, torch::ScalarType type) {
  const torch::Tensor rank = mask.cumsum(1, ops::wide_type(type));
  const torch::Tensor count = rank.narrow(1, mask.size(1) - 1, 1).clamp_min(1);  // M [B,1]
  const torch::Tensor angle = rank / count * (std::numbers::pi / 2);
  return torch::stack({angle.sin(), angle.cos()}, -1);
}

class CosformerAttention : public ProjectedAttention {
 public:
  CosformerAttention(const AttentionContext& context, const CosformerOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    return ops::linear_attention(context_.kernels,
                                 {q, k, v, mask, phases(mask, q.scalar_type()), linear_options()});
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    return ops::linear_attention_bytes(context_.kernels, shape(batch, length, element_size)) +
           batch * length * 2 * element_size;  // and the phases
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    return ops::linear_attention_flops(shape(batch, length));
  }

 private:
  ops::LinearAttentionShape shape(int64_t batch, int64_t length, int64_t element_size = 4) const {
    return {.batch = batch,
            .heads = context_.heads,
            .length = length,
            .head_dim = context_.head_dim,
            .width = 2 * context_.head_dim,
            .element_size = element_size,
            .options = linear_options()};
  }

  static ops::LinearAttentionOptions linear_options() {
    return {.map = ops::FeatureMap::cosine, .denominator_min = kCosformerLeast};
  }

  const CosformerOptions options_;
};

[[maybe_unused]] const bool cosformer_registered =
    register_attention<CosformerAttention, CosformerOptions>({
        .name = "cosformer",
        .title = "cosFormer",
        .paper = "Qin et al., ICLR 2022",
        .complexity = "O(N)",
        .softmax = Softmax::different,
        .linear = true,
        .why_unrotated = "it weighs products by distance already, of features that are cut at zero",
        .peer = "the formula, in float64",
    });

}  // namespace
}  // namespace lra
