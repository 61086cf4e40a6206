// Softmax attention: out = softmax(Q Kᵀ / √d) V.
//
// Vaswani et al., "Attention Is All You Need", NeurIPS 2017, section 3.2.1.
// Cost: O(N²d) time; memory O(Nd) fused, O(N²) materialized (the baseline of the
// efficient-attention papers). With a dropout of weights fused is O(N²) too on a CPU without own
// kernels for the type.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

struct StandardOptions {
  std::string implementation = "fused";
  double dropout = 0;  // of the attention weights, in training; 0 = off. The same weights in both
                       // implementations on a CPU

  template <class Fields>
  void fields(Fields& f) {
    f("implementation", implementation, one_of({"fused", "materialized"}));
    f("dropout", dropout, between(0, 0.999));
  }
};

// How many tokens each sample has, where padding stands behind all of them; else empty.
std::vector<int64_t> lengths_of(const torch::Tensor& mask) {
  const torch::Tensor count = mask.sum(1);
  const torch::Tensor position = torch::arange(mask.size(1), count.options());
  if (!torch::equal(position.unsqueeze(0) < count.unsqueeze(1), mask)) return {};
  return {count.data_ptr<int64_t>(), count.data_ptr<int64_t>() + count.numel()};
}

// Softmax attention of a padded batch, each sample without its padding: cost goes with the
// squares of the true lengths, and not with that of the longest.
torch::Tensor attend_per_sample(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const std::vector<int64_t>& lengths) {
  const int64_t padded = q.size(2);
  // Taken apart once, so that the gradients are put together once.
  const auto qs = q.unbind(0), ks = k.unbind(0), vs = v.unbind(0);
  std::vector<torch::Tensor> out;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t length = lengths[b];
    const auto real = [length](const torch::Tensor& x) {
      return x.narrow(1, 0, length).unsqueeze(0);
    };
    torch::Tensor one = real(qs[b]);  // [1,H,length,d]; without a token there is no row
    if (length > 0) one = at::scaled_dot_product_attention(one, real(ks[b]), real(vs[b]));
    out.push_back(at::constant_pad_nd(one.squeeze(0), {0, 0, 0, padded - length}));
  }
  return torch::stack(out);
}

// The rows of padded queries are dropped, but backward an infinite logit in one, between two padded
// positions, would make the gradients of k and v NaN.
torch::Tensor queries(const torch::Tensor& q, const torch::Tensor& mask) {
  return q.requires_grad() ? ops::zero_padding(q, mask) : q;
}

// Without N x N, and on CPUs, where there is no dropout, without work for the padding behind a
// sample.
torch::Tensor fused(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& mask, double dropout) {
  const std::vector<int64_t> lengths = mask.is_cpu() ? lengths_of(mask) : std::vector<int64_t>{};
  if (lengths.empty())
    return ops::reference::softmax_attention(queries(q, mask), ops::zero_padding(k, mask),
                                             ops::zero_padding(v, mask), mask, dropout);
  if (*std::ranges::min_element(lengths) == q.size(2))
    return ops::reference::softmax_attention(q, k, v, {});
  return attend_per_sample(q, k, v, lengths);
}

class StandardAttention : public ProjectedAttention {
 public:
  StandardAttention(const AttentionContext& context, const StandardOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (options_.implementation == "fused") {
      if (ops::has_cpu_kernels(context_.kernels, q)) {
        return ops::softmax_attention(
            q, k, v, mask, mask, ops::draw_weight_dropout(options_.dropout, is_training(), q, k));
      }
      const double dropout = is_training() ? options_.dropout : 0;
      // LibTorch's fused attention on CPUs leaves its fused path for an N x N one when given a
      // dropout; so that the same weights are dropped as by the kernel, that below takes its place.
      if (dropout == 0 || !q.is_cpu())
        return ops::zero_padded_rows(fused(q, k, v, mask, dropout).to(q.scalar_type()), mask);
    }
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
    torch::Tensor scores = torch::matmul(
        queries(q, mask) * scale, ops::zero_padding(k, mask).transpose(-2, -1));  // [B,H,N,N]
    scores.masked_fill_(ops::nonempty_rows(mask).logical_not().unsqueeze(1).unsqueeze(1),
                        -std::numeric_limits<double>::infinity());
    torch::Tensor weights = torch::softmax(scores, -1);  // [B,H,N,N]
    weights = ops::drop_weights(weights, options_.dropout, is_training());
    return ops::zero_padded_rows(
        torch::matmul(weights, ops::zero_padding(v, mask)).to(q.scalar_type()), mask);
  }

  bool length_invariant() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    const bool by_kernel =
        options_.implementation == "fused" && ops::has_cpu_kernels(context_.kernels, element_size);
    if (training && options_.dropout > 0 && !by_kernel)
      return -1;  // drop_weights(), and what autograd keeps
    const int64_t rows = batch * context_.heads * length;
    const int64_t vector = rows * context_.head_dim * element_size;  // one [B,H,N,d]
    const int64_t matrix = rows * length * element_size;             // one [B,H,N,N]
    if (by_kernel) {
      const int64_t forward = ops::softmax_attention_bytes(batch * context_.heads, length, length,
                                                           context_.head_dim, context_.head_dim);
      // Training: the gradients of q, k and v too; the scratch is the output's no more.
      return forward + (training ? 3 * vector : 0);
    }
    if (options_.implementation == "fused") {
      const int64_t beside = ops::reference::fused_attention_bytes(
          batch * context_.heads, length, length, context_.head_dim, element_size);
      // Without padding, or with padding behind the tokens; else copies of k and v are added.
      // Training: the output before and after zeroing, then its gradient, those of q, k and v, and
      // a working copy; the tiles of the backward pass are left out.
      return beside + (training ? 7 : 1) * vector;
    }
    // Two matrices at a time forwards, and v without padding; in training the weights stay, as k
    // and v without padding do, and two more pass backwards.
    return training ? 3 * matrix + 6 * vector : 2 * matrix + 2 * vector;
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    return 4 * batch * context_.heads * length * length * context_.head_dim;
  }

 private:
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
        .peer = "torch",
    });

}  // namespace
}  // namespace lra
