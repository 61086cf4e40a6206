// Sparse attention, fixed pattern: i attends to j if ⌊i/b⌋ = ⌊j/b⌋, or j mod b = 0, or j mod b ≥
// b - summary; causal: and j ≤ i.
//
// Child et al., "Generating Long Sequences with Sparse Transformers", arXiv 2019, section 4.3, as
// Tay et al., "Long Range Arena", ICLR 2021, use it. Cost: O(N b d + N² c d / b) time with c =
// summary + 1 columns a block (b ~ √N gives the paper's O(N √N)); memory O(N (b + d)).
//
// The softmax of a row runs over two sets of keys: those of its own block, and the summary columns
// that all rows share (without those of its own block, so that each pair counts once). The first is
// written out; its log-sum-exp then enters the second, which goes through the fused kernel, as the
// logit of one more key, which stands for the whole first set. A real token sees itself.
#include <algorithm>
#include <cmath>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/ops/reference/blocks.h"
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

// What the rows see in their own block.
struct OwnBlock {
  torch::Tensor out;        // softmax over it, times v [B,H,N,d]
  torch::Tensor logsumexp;  // of its logits [B,H,N,1], at least float32
};

class SparseAttention : public ProjectedAttention {
 public:
  SparseAttention(const AttentionContext& context, const SparseOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    return with_padded_rows(of_tokens(q, k, v, mask), q, k, v, mask);
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

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
                           [&] { return by_summaries_bytes(rows, length, element_size); }});
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t rows = batch * context_.heads, d = context_.head_dim, block = options_.block;
    if (sees_all(length)) return 4 * rows * length * length * d;
    const int64_t count = ops::reference::block_count(length, block);
    const int64_t own = count * block * block * d;
    int64_t pairs = length * (count * columns() + 1);  // of a query and a summary, or its block
    if (options_.causal) {
      pairs = 0;
      for (int64_t i = 0; i < count; ++i) {
        pairs += std::min(block, length - i * block) * (i * columns() + 1);
      }
    }
    return 4 * rows * (own + pairs * wider(d));
  }

 private:
  torch::Tensor of_tokens(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const torch::Tensor& mask) const {
    const int64_t length = q.size(2);
    if (sees_all(length))
      return ops::softmax_attention(context_.kernels, {q, k, v, mask, mask, softmax_options()});
    const auto fallback = [&] {
      return options_.cls == SparseFirst::open ? with_open_first(q, k, v, mask)
                                               : by_summaries(q, k, v, mask, {});
    };
    if (options_.dropout > 0 && is_training()) return fallback();
    return ops::block_sparse_attention(
        context_.kernels,
        {q, k, v, mask, [&] { return ops::Patterns{pattern(length)}; }, fallback});
  }

  ops::SoftmaxAttentionOptions softmax_options() const {
    return {.dropout = options_.dropout, .training = is_training()};
  }

  // A key that all rows see beside their own: k and v [B,H,1,d], whether it is real [B,1].
  struct OpenKey {
    torch::Tensor k, v, real;
  };

  torch::Tensor with_open_first(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& mask) const {
    const int64_t rest = q.size(2) - 1;
    const auto first = [](const torch::Tensor& x) { return x.narrow(2, 0, 1); };
    const auto others = [&](const torch::Tensor& x) { return x.narrow(2, 1, rest); };
    const torch::Tensor real = mask.narrow(1, 0, 1);
    const torch::Tensor open = ops::softmax_attention(
        ops::Kernels::reference, {first(q), k, v, mask, real, softmax_options()});
    return torch::cat({open, by_summaries(others(q), others(k), others(v), mask.narrow(1, 1, rest),
                                          {ops::zero_padding(first(k), real),
                                           ops::zero_padding(first(v), real), real})},
                      2);
  }

  torch::Tensor by_summaries(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& mask, const OpenKey& open) const {
    const int64_t batch = q.size(0), length = q.size(2), block = options_.block;
    const torch::Tensor queries = ops::reference::split_blocks(q, mask, block),
                        keys = ops::reference::split_blocks(k, mask, block),
                        values = ops::reference::split_blocks(v, mask, block),
                        real = ops::reference::split_mask(mask, block);
    const torch::Tensor out =
        with_summaries(ops::reference::join_blocks(queries, batch, length), keys, values, real,
                       own_block(queries, keys, values, real, batch, length), open);
    return ops::zero_padded_rows(out.to(q.scalar_type()), mask);
  }

  int64_t by_summaries_bytes(int64_t rows, int64_t length, int64_t element_size) const {
    const int64_t d = context_.head_dim, block = options_.block;
    const int64_t vector = rows * length * d * element_size;  // one [B,H,N,d]
    const int64_t count = ops::reference::block_count(length, block);
    const int64_t blocks = rows * count * block * d * element_size;
    const int64_t scores = rows * count * block * block * std::max<int64_t>(element_size, 4);
    // q, k and v in blocks; within them the scores, their softmax and what the log-sum-exp takes of
    // them, and the output in blocks and joined.
    const int64_t within = 5 * blocks + 3 * scores;
    // Then the blocks' own output, queries and output with their extra columns, the summaries of k
    // and v, and the sum of both parts.
    const int64_t keys = 1 + count * columns();
    const int64_t mixed =
        3 * blocks + 3 * vector + 2 * rows * (length + keys) * wider(d) * element_size;
    return std::max(within, mixed);
  }

  // c: the first column of a block and its last `summary`.
  int64_t columns() const { return std::min(options_.summary + 1, options_.block); }

  bool sees_all(int64_t length) const {
    const int64_t rest = length - (options_.cls == SparseFirst::open ? 1 : 0);
    if (rest == 0) return true;
    return !options_.causal && (rest <= options_.block || columns() == options_.block);
  }

  ops::SparsityPattern pattern(int64_t length) const {
    const int64_t block = options_.block, skipped = options_.cls == SparseFirst::open ? 1 : 0,
                  count = ops::reference::block_count(length - skipped, block);
    ops::SparsityPattern pattern;
    if (options_.causal) pattern.after = 0;
    if (skipped > 0) pattern.tiles.push_back({{0, 1}, {{0, length}}, /*unbounded=*/1});
    for (int64_t i = 0; i < count; ++i) {
      const ops::KeyRange own{skipped + i * block, std::min(skipped + (i + 1) * block, length)};
      ops::SparsityTile tile{.queries = own, .keys = {}};
      if (skipped > 0) {
        tile.keys.push_back({0, 1});
        tile.unbounded = 1;
      }
      for (int64_t j = 0; j < (options_.causal ? i + 1 : count); ++j) {
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

  // Room for two columns beyond d, in the multiples of 8 that GPU kernels need.
  static int64_t wider(int64_t d) { return (d + 2 + 7) / 8 * 8; }

  // queries, keys, values [B*n,H,b,d], real [B*n,b].
  OwnBlock own_block(const torch::Tensor& queries, const torch::Tensor& keys,
                     const torch::Tensor& values, const torch::Tensor& real, int64_t batch,
                     int64_t length) const {
    const int64_t block = options_.block;
    const torch::Tensor column = torch::arange(block, real.options().dtype(torch::kLong));
    // Where all see the summary columns of a block, its own rows see them among those.
    const torch::Tensor kept = options_.causal
                                   ? column.unsqueeze(0).le(column.unsqueeze(1))  // [b,b]
                                   : column.gt(0)
                                         .logical_and(column.lt(block - options_.summary))  // [b]
                                         .unsqueeze(0);
    const torch::Tensor seen = real.unsqueeze(1).unsqueeze(1).logical_and(kept);  // [B*n,1,·,b]
    const double scale = 1 / std::sqrt(static_cast<double>(queries.size(3)));
    const auto type = queries.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    const torch::Tensor scores = torch::matmul(queries * scale, keys.transpose(-2, -1))
                                     .to(type)
                                     .masked_fill(seen.logical_not(), ops::reference::kAbsentLogit);
    const torch::Tensor weights = ops::philox_dropout(
        torch::softmax(scores, -1).to(queries.scalar_type()), options_.dropout, is_training());
    return {
        ops::reference::join_blocks(torch::matmul(weights, values), batch, length),
        ops::reference::join_blocks(torch::logsumexp(scores, -1, /*keepdim=*/true), batch, length)};
  }

  // q [B,H,N,d] -> [B,H,N,d]. Key 0 of the fused attention stands for the row's own block: its
  // logit is the block's log-sum-exp, brought in by two columns of q (a value, and what a bfloat16
  // loses of it), and its value is zero but for a column of its own, where its weight comes out.
  torch::Tensor with_summaries(const torch::Tensor& q, const torch::Tensor& keys,
                               const torch::Tensor& values, const torch::Tensor& real,
                               const OwnBlock& own, const OpenKey& open) const {
    const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2), d = q.size(3);
    const int64_t block = options_.block, extra = wider(d) - d;
    const double root = std::sqrt(static_cast<double>(d));

    const auto index = real.options().dtype(torch::kLong);
    const torch::Tensor column = torch::cat(  // [c]
        {torch::zeros({1}, index),
         torch::arange(std::max<int64_t>(block - options_.summary, 1), block, index)});
    // The summary columns of all blocks [B,H,n*c,width] after key 0, which has `first` in its
    // columns from d on, and after the open key, where there is one.
    const auto gather = [&](const torch::Tensor& x, std::initializer_list<double> first,
                            const torch::Tensor& open_row) {
      torch::Tensor own_key = torch::zeros({heads, 1, d + extra}, q.options());
      int64_t at = d;
      for (const double value : first) own_key.select(2, at++).fill_(value);
      const torch::Tensor picked = x.index_select(2, column)  // [B*n,H,c,d]
                                       .transpose(1, 2)
                                       .reshape({batch, -1, heads, d})
                                       .transpose(1, 2);
      const torch::Tensor seen = open_row.defined() ? torch::cat({open_row, picked}, 2) : picked;
      return torch::cat(
          {own_key.expand({batch, heads, 1, d + extra}), at::constant_pad_nd(seen, {0, extra})}, 2);
    };
    const torch::Tensor all_keys = gather(keys, {1, 1}, open.k),
                        all_values = gather(values, {1}, open.v);
    torch::Tensor picked = real.index_select(1, column).reshape({batch, -1});
    if (open.real.defined()) picked = torch::cat({open.real, picked}, 1);
    const torch::Tensor there =
        at::constant_pad_nd(picked.view({batch, 1, 1, -1}), {1, 0}, true);  // [B,1,1,1+n*c]
    const int64_t always = 1 + (open.k.defined() ? 1 : 0);

    const torch::Tensor logit = own.logsumexp * root;
    const torch::Tensor high = logit.detach().to(torch::kBFloat16).to(logit.scalar_type());
    const torch::Tensor rows =
        torch::cat({q, high.to(q.scalar_type()), (logit - high).to(q.scalar_type()),
                    torch::zeros({batch, heads, length, extra - 2}, q.options())},
                   3);
    const auto attend_to = [&](const torch::Tensor& some, int64_t count) {
      const torch::Tensor k = all_keys.narrow(2, 0, count), v = all_values.narrow(2, 0, count),
                          seen = there.narrow(3, 0, count);
      if (options_.dropout == 0 || !is_training()) {
        return at::scaled_dot_product_attention(some, k, v, seen, /*dropout_p=*/0,
                                                /*is_causal=*/false, /*scale=*/1 / root);
      }
      const torch::Tensor weights =
          torch::softmax(torch::matmul(some / root, k.transpose(-2, -1))
                             .masked_fill(seen.logical_not(), ops::reference::kAbsentLogit),
                         -1);
      // The weights that key 0 stands for have been dropped in its block.
      const torch::Tensor dropped =
          torch::cat({weights.narrow(3, 0, 1),
                      ops::philox_dropout(weights.narrow(3, 1, count - 1), options_.dropout, true)},
                     3);
      return torch::matmul(dropped, v);
    };
    torch::Tensor mixed;
    if (options_.causal) {
      // A block's rows see the summaries of the blocks before it.
      std::vector<torch::Tensor> parts;
      for (int64_t start = 0; start < length; start += block) {
        parts.push_back(attend_to(rows.narrow(2, start, std::min(block, length - start)),
                                  always + start / block * columns()));
      }
      mixed = torch::cat(parts, 2);
    } else {
      mixed = attend_to(rows, all_keys.size(2));
    }
    return own.out * mixed.narrow(3, d, 1) + mixed.narrow(3, 0, d);
  }

  const SparseOptions options_;
};

[[maybe_unused]] const bool sparse_registered = register_attention<SparseAttention, SparseOptions>({
    .name = "sparse",
    .title = "Sparse",
    .paper = "Child et al., arXiv 2019",
    .complexity = "O(N b + N² c / b); memory O(N b)",
    .softmax = Softmax::approximate,
    .budget = "block",
    .linear = true,
    .peer = "masked softmax",
});

}  // namespace
}  // namespace lra
