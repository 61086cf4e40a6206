// Softmax attention: out = softmax(Q Kᵀ / √d) V.
//
// Vaswani et al., "Attention Is All You Need", NeurIPS 2017, section 3.2.1.
// Cost: O(N²d) time; memory O(Nd) fused, O(N²) materialized (the baseline of the
// efficient-attention papers). With a dropout of weights fused is O(N²) too where it is causal, and
// on a CPU without own kernels for the type. Causal: position i sees j <= i, by the kernel of
// sparse patterns.
#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/causal.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

enum class SoftmaxImplementation { fused, materialized };
constexpr auto names(SoftmaxImplementation) { return std::array{"fused", "materialized"}; }

struct StandardOptions {
  SoftmaxImplementation implementation = SoftmaxImplementation::fused;
  double dropout = 0;  // of the attention weights, in training; 0 = off. The same weights in both
                       // implementations on a CPU

  template <class Fields>
  void fields(Fields& f) {
    f("implementation", implementation);
    f("dropout", dropout, between(0, 0.999));
  }
};

class StandardAttention : public ProjectedAttention {
 public:
  StandardAttention(const AttentionContext& context, const StandardOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (context_.causal) return with_padded_rows(causal(q, k, v, mask), q, k, v, mask);
    const torch::Tensor out =
        options_.implementation == SoftmaxImplementation::materialized
            ? ops::reference::materialized_attention(q, k, v, mask, options_.dropout, is_training())
            : ops::softmax_attention(context_.kernels,
                                     {q, k, v, mask, mask, softmax_options(is_training())});
    return with_padded_rows(out, q, k, v, mask);
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    const int64_t rows = batch * context_.heads, d = context_.head_dim;
    if (context_.causal) return -1;
    if (options_.implementation == SoftmaxImplementation::fused) {
      return ops::softmax_attention_bytes(
          context_.kernels,
          {rows, length, length, d, d, element_size, true, softmax_options(training)});
    }
    if (training && options_.dropout > 0) return -1;  // the dropout, and what autograd keeps
    const int64_t vector = rows * length * d * element_size;       // one [B,H,N,d]
    const int64_t matrix = rows * length * length * element_size;  // one [B,H,N,N]
    // Two matrices at a time forwards, and v without padding; in training the weights stay, as k
    // and v without padding do, and two more pass backwards.
    return training ? 3 * matrix + 6 * vector : 2 * matrix + 2 * vector;
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t pairs = context_.causal ? length * (length + 1) / 2 : length * length;
    return 4 * batch * context_.heads * pairs * context_.head_dim;
  }

 private:
  torch::Tensor causal(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) const {
    const double dropout = is_training() ? options_.dropout : 0;
    const auto by_mask = [&] {
      const torch::Tensor out =
          ops::reference::causal_attention(ops::zero_padding(q, mask), ops::zero_padding(k, mask),
                                           ops::zero_padding(v, mask), mask, dropout);
      return ops::zero_padded_rows(out.to(q.scalar_type()), mask);
    };
    if (dropout > 0 || options_.implementation == SoftmaxImplementation::materialized)
      return by_mask();
    return ops::block_sparse_attention(
        context_.kernels,
        {q, k, v, mask, [&] { return ops::Patterns{causal_pattern(q.size(2))}; }, by_mask});
  }

  // Tiles of queries, each with the keys up to its end.
  static ops::SparsityPattern causal_pattern(int64_t length) {
    constexpr int64_t kTile = 128;
    ops::SparsityPattern pattern;
    pattern.after = 0;
    for (int64_t begin = 0; begin < length; begin += kTile) {
      const int64_t end = std::min(begin + kTile, length);
      pattern.tiles.push_back({.queries = {begin, end}, .keys = {{0, end}}});
    }
    return pattern;
  }

  ops::SoftmaxAttentionOptions softmax_options(bool training) const {
    return {.dropout = options_.dropout, .training = training, .per_sample = true};
  }

  const StandardOptions options_;
};

[[maybe_unused]] const bool standard_registered =
    register_attention<StandardAttention, StandardOptions>({
        .name = "standard",
        .title = "Standard",
        .paper = "Vaswani et al., NeurIPS 2017",
        .complexity = "O(N²) time; memory O(N) fused, O(N²) materialized",
        .softmax = Softmax::exact,
        .linear = true,  // fused, the default
        .can_be_causal = true,
        .can_rotate = true,
        .uniform_padding = true,
        .peer = "torch",
    });

}  // namespace
}  // namespace lra
