// Synthesizer: out = softmax(R) V, where R does not come from products of queries and keys:
//   random      R [H,Nmax,Nmax], learned
//   factorized  R = R₁ R₂ᵀ, R₁ and R₂ [H,Nmax,r], learned
//   dense       R = relu(x W₁) W₂, from each token x [D] alone; W₁ [D,H·d], W₂ [H,d,Nmax]
// R is cut to the N positions of the input, padded keys are masked. Nothing divides it by √d.
//
// Tay et al., "Synthesizer: Rethinking Self-Attention for Transformer Models", ICML 2021, sections
// 3.1-3.3. The multilayer perceptron of `dense` is without biases.
// Cost: O(N²) time. Memory O(N) where R is a product, which makes it a softmax attention with
// queries R₁ and keys R₂ (or relu(x W₁) and W₂ᵀ) that the fused kernel computes without storing R;
// O(N²) where R is random, as its parameters are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

enum class SynthesizerKind { factorized, random, dense };
constexpr auto names(SynthesizerKind) { return std::array{"factorized", "random", "dense"}; }

struct SynthesizerOptions {
  SynthesizerKind kind = SynthesizerKind::factorized;
  int64_t rank = 32;  // r, of the factorized kind alone

  template <class Fields>
  void fields(Fields& f) {
    f("kind", kind);
    f("rank", rank, at_least(1));
  }
};

// x [..,d] with columns of zeros up to `width`.
torch::Tensor widen(const torch::Tensor& x, int64_t width) {
  return x.size(-1) == width ? x : torch::constant_pad_nd(x, {0, width - x.size(-1)});
}

// softmax(left rightᵀ) v: left [B or 1,H,N,r], right [1,H,N,r], v [B,H,N,d] -> [B,H,N,d].
torch::Tensor product_attention(const torch::Tensor& left, const torch::Tensor& right,
                                const torch::Tensor& v, const torch::Tensor& mask) {
  // The fused kernel needs one width for all three, and divides by its root.
  const int64_t width = std::max(left.size(-1), v.size(-1));
  const auto prepare = [&](const torch::Tensor& x) {
    return widen(x, width).to(v.scalar_type()).expand({v.size(0), -1, -1, -1});
  };
  const torch::Tensor out = ops::reference::softmax_attention(
      prepare(left * std::sqrt(static_cast<double>(width))), prepare(right), widen(v, width), mask);
  return out.narrow(-1, 0, v.size(-1));
}

class SynthesizerAttention : public ProjectedAttention {
 public:
  SynthesizerAttention(const AttentionContext& context, const SynthesizerOptions& options)
      : ProjectedAttention(context, Projections::value_only), options_(options) {
    const int64_t heads = context.heads, length = context.max_length, width = context.head_dim;
    // Normal with variance 1 / fan-in of a head's matrix. (The released LRA code draws uniform
    // ones, and its fan-in counts the heads as well.)
    const auto add = [&](const char* name, int64_t rows, int64_t columns, int64_t fan_in) {
      return register_parameter(
          name, torch::randn({heads, rows, columns}) / std::sqrt(static_cast<double>(fan_in)));
    };
    if (options.kind == SynthesizerKind::random) {
      r_ = add("r", length, length, length);
    } else if (options.kind == SynthesizerKind::factorized) {
      r1_ = add("r1", length, options.rank, length);
      r2_ = add("r2", length, options.rank, options.rank);
    } else {
      w1_ = register_module(
          "w1",
          torch::nn::Linear(torch::nn::LinearOptions(context.width, heads * width).bias(false)));
      w2_ = add("w2", length, width, width);
    }
  }

  torch::Tensor mix_heads(NormedInput& rows, const torch::Tensor& mask) override {
    if (options_.kind != SynthesizerKind::dense) return ProjectedAttention::mix_heads(rows, mask);
    check_length(rows.x.size(1));
    const torch::Tensor x = normed(rows, mask);
    const torch::Tensor real = x.masked_fill(mask.logical_not().unsqueeze(-1), 0);
    const torch::Tensor hidden =
        torch::relu(w1_->forward(real))
            .view({x.size(0), x.size(1), context_.heads, context_.head_dim})
            .transpose(1, 2);  // [B,H,N,d]
    return product_attention(hidden, cut(w2_, x.size(1)), project_value(real), mask);
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v_given,
                       const torch::Tensor& mask) override {
    if (options_.kind == SynthesizerKind::dense) return Attention::attend(q, k, v_given, mask);
    check_attend_inputs(q, k, v_given, mask);
    if (v_given.size(1) != context_.heads) {
      throw Error(fmt::format("synthesizer was made for {} heads, not {}", context_.heads,
                              v_given.size(1)));
    }
    check_length(v_given.size(2));
    const int64_t length = v_given.size(2);
    const torch::Tensor v = ops::zero_padding(v_given, mask);
    const torch::Tensor out = options_.kind == SynthesizerKind::random
                                  ? random_attention(cut(r_, length).narrow(3, 0, length), v, mask)
                                  : product_attention(cut(r1_, length), cut(r2_, length), v, mask);
    return ops::zero_padded_rows(out.to(v.scalar_type()), mask);
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;                                 // depends on when autograd frees what
    if (options_.kind == SynthesizerKind::dense) return -1;  // has no attend()
    const int64_t heads = context_.heads, d = context_.head_dim;
    const int64_t vector = batch * heads * length * d * element_size;
    // The scores of each sample, and their softmax; zeroed values and the output.
    if (options_.kind == SynthesizerKind::random)
      return 2 * (batch * heads * length * length * element_size + vector);
    // One factor scaled; both, and the values, widened where they differ in width.
    const int64_t rank = options_.rank, width = std::max(rank, d);
    const int64_t factors = heads * length * (rank + (rank < width ? 2 * width : 0));
    const int64_t values = batch * heads * length * (width + (d < width ? width : 0));
    return vector + (factors + values) * element_size +
           ops::reference::fused_attention_bytes(batch * heads, length, length, width,
                                                 element_size);
  }

  /// For `dense`, which has no attend(), of relu(x W₁) W₂ and its product with V.
  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t d = context_.head_dim, square = length * length;
    int64_t scores = 0;  // of one head
    if (options_.kind == SynthesizerKind::factorized) scores = 2 * square * options_.rank;
    if (options_.kind == SynthesizerKind::dense)
      scores = 2 * length * context_.width * d + 2 * square * d;
    return batch * context_.heads * (scores + 2 * square * d);
  }

 private:
  // A parameter [H,Nmax,..] for the first N positions, [1,H,N,..].
  static torch::Tensor cut(const torch::Tensor& parameter, int64_t length) {
    return parameter.narrow(1, 0, length).unsqueeze(0);
  }

  void check_length(int64_t length) const {
    if (length > context_.max_length) {
      throw Error(fmt::format("synthesizer has parameters for {} positions (max_length), not {}",
                              context_.max_length, length));
    }
  }

  // softmax(r) v: r [1,H,N,N].
  static torch::Tensor random_attention(const torch::Tensor& r, const torch::Tensor& v,
                                        const torch::Tensor& mask) {
    const torch::Tensor absent = ops::nonempty_rows(mask).logical_not().unsqueeze(1).unsqueeze(1);
    const torch::Tensor scores =
        r.to(v.scalar_type()).masked_fill(absent, -std::numeric_limits<double>::infinity());
    return torch::matmul(torch::softmax(scores, -1), v);
  }

  const SynthesizerOptions options_;
  torch::Tensor r_, r1_, r2_, w2_;  // those of the kind
  torch::nn::Linear w1_{nullptr};
};

[[maybe_unused]] const bool synthesizer_registered =
    register_attention<SynthesizerAttention, SynthesizerOptions>({
        .name = "synthesizer",
        .title = "Synthesizer",
        .paper = "Tay et al., ICML 2021",
        .complexity = "O(N²) time; memory O(N) factorized and dense, O(N²) random",
        .softmax = Softmax::different,
        .linear = true,  // factorized, the default
        .state = "r1, r2 [H,Nmax,r] (factorized); r [H,Nmax,Nmax] (random); w1.weight [H·d,D], w2 "
                 "[H,Nmax,d] (dense)",
        .length_bound = true,
        .why_unrotated = "its scores are no products of queries and keys",
        .peer = "the formula, in float64",
        .read_where = {{"rank", "kind", "factorized"}},
    });

}  // namespace
}  // namespace lra
