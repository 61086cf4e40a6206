// Sparse attention, fixed pattern: i attends to j if ⌊i/b⌋ = ⌊j/b⌋, or j mod b = 0, or j mod b ≥
// b - summary; causal: and j ≤ i.
//
// Child et al., "Generating Long Sequences with Sparse Transformers", arXiv 2019, section 4.3, as
// Tay et al., "Long Range Arena", ICLR 2021, use it. Cost: O(N b d + N² c d / b) time with c =
// summary + 1 columns a block (b ~ √N gives the paper's O(N √N)); memory O(N (b + d)), in
// training with a dropout of weights, which are stored then, O(N² c / b).
// A real token sees itself.
#include <algorithm>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/blocks.h"
#include "attention_variants/ops/reference/summary_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

/// What stands at position 0.
enum class SparseFirst {
  token,  // a token as the others
  open,  // one that sees all and is seen by all, before the first block: a class token, as in LRA's
         // release (lra_benchmarks/models/sparse_transformer/sparse_attention.py:184-191)
};
constexpr auto names(SparseFirst) { return std::array{"token", "open"}; }

struct SparseOptions {
  int64_t block = 128;   // b
  int64_t summary = 32;  // last columns of each block that all see, beside its first
  bool causal = false;
  SparseFirst cls = SparseFirst::token;
  double dropout = 0;  // of the weights, in training

  template <class Fields>
  void fields(Fields& f) {
    f("block", block, at_least(1));
    f("summary", summary, at_least(0));
    f("causal", causal);
    f("cls", cls);
    f("dropout", dropout, between(0, 0.999));
  }

  void settle() const {
    if (summary > block) {
      throw UsageError("attention sparse: summary should be at most block, " +
                       std::to_string(block) + ", not " + std::to_string(summary));
    }
  }
};

class SparseAttention : public ProjectedAttention {
 public:
  SparseAttention(const AttentionContext& context, const SparseOptions& options)
      : ProjectedAttention(context), options_(options) {
    if (context.causal && options.cls == SparseFirst::open)
      throw UsageError("attention sparse[cls=open] cannot be causal: position 0 sees all");
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    return with_padded_rows(of_tokens(q, k, v, mask), q, k, v, mask);
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

  bool sees_all(int64_t length) const override {
    const int64_t rest = length - (options_.cls == SparseFirst::open ? 1 : 0);
    if (rest == 0) return true;
    return !causal() && (rest <= options_.block || columns() == options_.block);
  }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim;
    if (sees_all(length)) {
      return ops::softmax_attention_bytes(context_.kernels,
                                          {rows, length, length, d, d, element_size});
    }
    return ops::block_sparse_attention_bytes(
        context_.kernels, {batch, context_.heads, length, d, element_size,
                           [&] { return ops::Patterns{pattern(length)}; },
                           [&] {
                             return ops::reference::summary_attention_bytes(
                                 rows, length, d, element_size, summary_options());
                           }});
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t pairs = sees_all(length) ? length * length : ops::pair_count(pattern(length));
    return 4 * batch * context_.heads * pairs * context_.head_dim;
  }

 private:
  torch::Tensor of_tokens(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const torch::Tensor& mask) const {
    const int64_t length = q.size(2);
    if (sees_all(length))
      return ops::softmax_attention(context_.kernels, {q, k, v, mask, mask, softmax_options()});
    const auto fallback = [&] {
      return options_.cls == SparseFirst::open
                 ? with_open_first(q, k, v, mask)
                 : ops::reference::summary_attention(q, k, v, mask, {}, summary_options());
    };
    if (options_.dropout > 0 && is_training()) return fallback();
    return ops::block_sparse_attention(
        context_.kernels,
        {q, k, v, mask, [&] { return ops::Patterns{pattern(length)}; }, fallback});
  }

  ops::SoftmaxAttentionOptions softmax_options() const {
    return {.dropout = options_.dropout, .training = is_training()};
  }

  ops::reference::SummaryAttentionOptions summary_options() const {
    return {.block = options_.block,
            .summary = options_.summary,
            .causal = causal(),
            .dropout = options_.dropout,
            .training = is_training()};
  }

  torch::Tensor with_open_first(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& mask) const {
    const int64_t rest = q.size(2) - 1;
    const auto first = [](const torch::Tensor& x) { return x.narrow(2, 0, 1); };
    const auto others = [&](const torch::Tensor& x) { return x.narrow(2, 1, rest); };
    const torch::Tensor real = mask.narrow(1, 0, 1);
    const torch::Tensor open = ops::softmax_attention(
        ops::Kernels::reference, {first(q), k, v, mask, real, softmax_options()});
    const torch::Tensor closed = ops::reference::summary_attention(
        others(q), others(k), others(v), mask.narrow(1, 1, rest),
        {ops::zero_padding(first(k), real), ops::zero_padding(first(v), real), real},
        summary_options());
    return torch::cat({open, closed}, 2);
  }

  bool causal() const { return options_.causal || context_.causal; }

  int64_t columns() const { return summary_options().columns(); }

  ops::SparsityPattern pattern(int64_t length) const {
    const int64_t block = options_.block, skipped = options_.cls == SparseFirst::open ? 1 : 0,
                  count = ops::reference::block_count(length - skipped, block);
    ops::SparsityPattern pattern;
    if (causal()) pattern.after = 0;
    if (skipped > 0) pattern.tiles.push_back({{0, 1}, {{0, length}}, /*unbounded=*/1});
    for (int64_t i = 0; i < count; ++i) {
      const ops::KeyRange own{skipped + i * block, std::min(skipped + (i + 1) * block, length)};
      ops::SparsityTile tile{.queries = own, .keys = {}};
      if (skipped > 0) {
        tile.keys.push_back({0, 1});
        tile.unbounded = 1;
      }
      for (int64_t j = 0; j < (causal() ? i + 1 : count); ++j) {
        const int64_t begin = skipped + j * block, end = begin + block;
        if (j == i) {
          tile.keys.push_back(own);
          continue;
        }
        tile.keys.push_back({begin, begin + 1});
        const ops::KeyRange last{std::max(begin + 1, end - options_.summary),
                                 std::min(end, length)};
        if (last.begin < last.end) tile.keys.push_back(last);
      }
      pattern.tiles.push_back(std::move(tile));
    }
    return pattern;
  }

  const SparseOptions options_;
};

[[maybe_unused]] const bool sparse_registered = register_attention<SparseAttention, SparseOptions>({
    .name = "sparse",
    .title = "Sparse",
    .paper = "Child et al., arXiv 2019",
    .complexity = "O(N b + N² c / b); memory O(N b), with dropout O(N² c / b)",
    .softmax = Softmax::approximate,
    .budget = "block",
    .linear = true,
    .can_be_causal = true,
    .can_rotate = true,
    .uniform_padding = true,
    .peer = "masked softmax",
});

}  // namespace
}  // namespace lra
