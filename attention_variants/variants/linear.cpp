// Linear attention: out = φ(Q) (φ(K)ᵀ V) / (φ(Q)·Σ φ(K)) with φ(x) = elu(x) + 1; padded keys have
// φ = 0.
//
// Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with Linear
// Attention", ICML 2020. Cost: O(N d²) time, O(N d) memory.
#include <cmath>

#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/linear_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

// Of the denominator. It lies below only where every product of features underflows; large enough
// that the gradient of the quotient stays finite in float32.
constexpr double kLinearLeast = 1e-30;

struct LinearOptions {
  std::string feature_map = "elu";  // φ(x) = elu(x) + 1
  bool normalise = true;  // false: divided by √N instead (N with padding), as the released code of
                          // the Nyströmformer's LRA experiments does

  template <class Fields>
  void fields(Fields& f) {
    f("feature_map", feature_map, one_of({"elu"}));
    f("normalise", normalise);
  }
};

// elu(x) + 1 as exp(min(x, 0)) + max(x, 0): elu(x) itself rounds to -1 from x = -6 on in bfloat16.
torch::Tensor features(const torch::Tensor& x) { return x.clamp_max(0).exp_() + torch::relu(x); }

class LinearAttention : public ProjectedAttention {
 public:
  LinearAttention(const AttentionContext& context, const LinearOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (ops::has_cpu_kernels(context_.kernels, q)) {
      return ops::linear_attention(q, k, v, mask, torch::empty({0}, q.options()),
                                   {.map = ops::cpu::FeatureMap::elu,
                                    .normalise = options_.normalise,
                                    .denominator_min = kLinearLeast});
    }
    // Replaced before the features too: the gradient of exp at infinity is no zero.
    const auto real_features = [&](const torch::Tensor& x) {
      return features(ops::zero_padding(x, mask));
    };
    torch::Tensor sums;  // [B,H,d,d+1], or [B,H,d,d] without the denominator
    if (options_.normalise) {
      sums = ops::reference::key_value_sums(real_features(k),
                                            ops::reference::values_with_ones(v, mask),
                                            /*offset=*/0);
    } else {
      const double share = 1 / std::sqrt(static_cast<double>(q.size(2)));
      sums = torch::matmul(real_features(k).transpose(-2, -1), ops::zero_padding(v, mask)) * share;
    }
    // The rows of padded queries come out as zero because their features are.
    const torch::Tensor q_features = ops::zero_padded_rows(real_features(q), mask);
    const torch::Tensor out = options_.normalise ? ops::reference::normalised_readout(
                                                       q_features, sums, /*offset=*/0, kLinearLeast)
                                                 : torch::matmul(q_features, sums);
    return out.to(q.scalar_type());
  }

  bool length_invariant() const override { return options_.normalise; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    if (ops::has_cpu_kernels(context_.kernels, element_size)) {
      return ops::linear_attention_bytes(batch, context_.heads, length, context_.head_dim,
                                         context_.head_dim);
    }
    const int64_t rows = batch * context_.heads, d = context_.head_dim;
    // The values, with a column of ones where they are counted, stand while the features of the
    // keys are made: the keys without padding, two parts and their sum.
    return rows * length * (4 * d + d + (options_.normalise ? 1 : 0)) * element_size;
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t d = context_.head_dim;
    // φ(K)ᵀ V and φ(Q) times it; the denominator is one more column in both.
    return 4 * batch * context_.heads * length * d * (d + (options_.normalise ? 1 : 0));
  }

 private:
  const LinearOptions options_;
};

[[maybe_unused]] const bool linear_registered = register_attention<LinearAttention, LinearOptions>({
    .name = "linear",
    .title = "Linear",
    .paper = "Katharopoulos et al., ICML 2020",
    .complexity = "O(N)",
    .softmax = Softmax::different,
    .linear = true,
    .peer = "the formula, in float64",
});

}  // namespace
}  // namespace lra
