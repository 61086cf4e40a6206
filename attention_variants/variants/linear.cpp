// Linear attention: out = φ(Q) (φ(K)ᵀ V) / (φ(Q)·Σ φ(K)) with φ(x) = elu(x) + 1; padded keys have
// φ = 0.
//
// Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with Linear
// Attention", ICML 2020. Cost: O(N d²) time, O(N d) memory. Causal: both sums run over j <= i
// (section 3.3), a chunk of positions at a time by LibTorch's operators.
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/reference/causal.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

// Of the denominator. It lies below only where every product of features is smaller, as of queries
// and keys of -35 and less in every column; large enough that the gradient of the quotient stays
// finite in float32 while sums of values are below some 1e8.
constexpr double kLinearLeast = 1e-30;

struct LinearOptions {
  std::string feature_map = "elu";  // φ(x) = elu(x) + 1
  bool normalise = true;  // false: divided by √N instead (N with padding), as the released code of
                          // the Nyströmformer's LRA experiments does
  double epsilon = 0;  // added to the denominator

  template <class Fields>
  void fields(Fields& f) {
    f("feature_map", feature_map, one_of({"elu"}));
    f("normalise", normalise);
    f("epsilon", epsilon, at_least(0));
  }
};

class LinearAttention : public ProjectedAttention {
 public:
  LinearAttention(const AttentionContext& context, const LinearOptions& options)
      : ProjectedAttention(context), options_(options) {
    if (context.causal && !options.normalise)
      throw UsageError("attention linear[normalise=false] cannot be causal: it divides by √N");
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (context_.causal)
      return ops::reference::causal_linear_attention({q, k, v, mask, {}, linear_options()});
    return ops::linear_attention(context_.kernels, {q, k, v, mask, {}, linear_options()});
  }

  bool length_invariant() const override { return options_.normalise; }

  bool capturable() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training || context_.causal) return -1;  // depends on when autograd frees what
    return ops::linear_attention_bytes(context_.kernels, shape(batch, length, element_size));
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    if (context_.causal) {
      return ops::reference::causal_linear_flops(batch * context_.heads, length, context_.head_dim);
    }
    return ops::linear_attention_flops(shape(batch, length));
  }

 private:
  ops::LinearAttentionShape shape(int64_t batch, int64_t length, int64_t element_size = 4) const {
    return {.batch = batch,
            .heads = context_.heads,
            .length = length,
            .head_dim = context_.head_dim,
            .width = context_.head_dim,
            .element_size = element_size,
            .options = linear_options()};
  }

  ops::LinearAttentionOptions linear_options() const {
    return {.map = ops::FeatureMap::elu,
            .normalise = options_.normalise,
            .denominator_min = kLinearLeast,
            .epsilon = options_.epsilon};
  }

  const LinearOptions options_;
};

[[maybe_unused]] const bool linear_registered = register_attention<LinearAttention, LinearOptions>({
    .name = "linear",
    .title = "Linear",
    .paper = "Katharopoulos et al., ICML 2020",
    .complexity = "O(N)",
    .softmax = Softmax::different,
    .linear = true,
    .can_be_causal = true,
    .can_rotate = true,
    .peer = "the formula, in float64",
    .read_where = {{"epsilon", "normalise", true}},
});

}  // namespace
}  // namespace lra
