// The row's own block is written out; its log-sum-exp then enters the softmax over the summary
// columns (without those of the own block, so that each pair counts once), which goes through the
// fused kernel, as the logit of one more key, which stands for the whole block.
#include "attention_variants/ops/reference/summary_attention.h"

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/blocks.h"

namespace lra::ops::reference {
namespace {

// q, k, v in blocks, [B*n,H,b,d], and which of their positions are real, [B*n,b].
struct Blocks {
  torch::Tensor q, k, v, real;
};

// What the rows see in their own block.
struct OwnBlock {
  torch::Tensor out;        // softmax over it, times v [B,H,N,d]
  torch::Tensor logsumexp;  // of its logits [B,H,N,1], at least float32
};

// The summary columns of all blocks after key 0, which stands for a row's own block, and after the
// open key, where there is one; m keys in all.
struct SummaryKeys {
  torch::Tensor k, v;   // [B,H,m,width]
  torch::Tensor there;  // [B,1,1,m] bool
};

// The width of the vectors that meet the summary columns: room for two columns beyond d, in the
// multiples of 8 that GPU kernels need.
int64_t summary_width(int64_t d) { return (d + 2 + 7) / 8 * 8; }

OwnBlock attend_to_own_block(const Blocks& in, int64_t batch, int64_t length,
                             const SummaryAttentionOptions& options) {
  const int64_t block = options.block;
  const torch::Tensor column = torch::arange(block, in.real.options().dtype(torch::kLong));
  // Where all see the summary columns of a block, its own rows see them among those.
  const torch::Tensor kept =
      options.causal
          ? column.unsqueeze(0).le(column.unsqueeze(1))                                 // [b,b]
          : column.gt(0).logical_and(column.lt(block - options.summary)).unsqueeze(0);  // [1,b]
  const torch::Tensor seen = in.real.unsqueeze(1).unsqueeze(1).logical_and(kept);  // [B*n,1,·,b]
  const double scale = 1 / std::sqrt(static_cast<double>(in.q.size(3)));
  const auto type = wide_type(in.q.scalar_type());
  const torch::Tensor scores = torch::matmul(in.q * scale, in.k.transpose(-2, -1))
                                   .to(type)
                                   .masked_fill(seen.logical_not(), kAbsentLogit);
  const torch::Tensor weights = philox_dropout(torch::softmax(scores, -1).to(in.q.scalar_type()),
                                               options.dropout, options.training);
  return {join_blocks(torch::matmul(weights, in.v), batch, length),
          join_blocks(torch::logsumexp(scores, -1, /*keepdim=*/true), batch, length)};
}

SummaryKeys summary_keys(const Blocks& in, int64_t batch, const OpenKey& open,
                         const SummaryAttentionOptions& options) {
  const int64_t heads = in.k.size(1), d = in.k.size(3), extra = summary_width(d) - d;
  const auto index = in.real.options().dtype(torch::kLong);
  const torch::Tensor column = torch::cat(  // [c]
      {torch::zeros({1}, index),
       torch::arange(std::max<int64_t>(options.block - options.summary, 1), options.block, index)});
  // `first` is what key 0 has in its columns from d on.
  const auto gather = [&](const torch::Tensor& x, std::initializer_list<double> first,
                          const torch::Tensor& open_row) {
    torch::Tensor own_key = torch::zeros({heads, 1, d + extra}, x.options());
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
  torch::Tensor there = in.real.index_select(1, column).reshape({batch, -1});
  if (open.real.defined()) there = torch::cat({open.real, there}, 1);
  return {gather(in.k, {1, 1}, open.k), gather(in.v, {1}, open.v),
          at::constant_pad_nd(there.view({batch, 1, 1, -1}), {1, 0}, true)};
}

// The first `count` keys' part for the rows q [B,H,·,width].
torch::Tensor attend_to_summaries(const torch::Tensor& q, const SummaryKeys& keys, int64_t count,
                                  double root, const SummaryAttentionOptions& options) {
  const torch::Tensor k = keys.k.narrow(2, 0, count), v = keys.v.narrow(2, 0, count),
                      seen = keys.there.narrow(3, 0, count);
  if (options.dropout == 0 || !options.training) {
    return at::scaled_dot_product_attention(q, k, v, seen, /*dropout_p=*/0, /*is_causal=*/false,
                                            /*scale=*/1 / root);
  }
  const torch::Tensor weights = torch::softmax(
      torch::matmul(q / root, k.transpose(-2, -1)).masked_fill(seen.logical_not(), kAbsentLogit),
      -1);
  // The weights that key 0 stands for have been dropped in its block.
  const torch::Tensor dropped =
      torch::cat({weights.narrow(3, 0, 1),
                  philox_dropout(weights.narrow(3, 1, count - 1), options.dropout, true)},
                 3);
  return torch::matmul(dropped, v);
}

// q [B,H,N,d] -> [B,H,N,d]. Key 0's logit is the block's log-sum-exp, brought in by two columns of
// q (a value, and what a bfloat16 loses of it), and its value is zero but for a column of its own,
// where its weight comes out.
torch::Tensor with_summaries(const torch::Tensor& q, const OwnBlock& own, const SummaryKeys& keys,
                             bool has_open, const SummaryAttentionOptions& options) {
  const int64_t length = q.size(2), d = q.size(3), extra = summary_width(d) - d;
  const double root = std::sqrt(static_cast<double>(d));
  const torch::Tensor logit = own.logsumexp * root;
  const torch::Tensor high = logit.detach().to(torch::kBFloat16).to(logit.scalar_type());
  const torch::Tensor rows =
      torch::cat({q, high.to(q.scalar_type()), (logit - high).to(q.scalar_type()),
                  torch::zeros({q.size(0), q.size(1), length, extra - 2}, q.options())},
                 3);
  torch::Tensor mixed;
  if (options.causal) {
    // A block's rows see the summaries of the blocks before it.
    const int64_t block = options.block, always = 1 + (has_open ? 1 : 0);
    std::vector<torch::Tensor> parts;
    for (int64_t start = 0; start < length; start += block) {
      parts.push_back(attend_to_summaries(rows.narrow(2, start, std::min(block, length - start)),
                                          keys, always + start / block * options.columns(), root,
                                          options));
    }
    mixed = torch::cat(parts, 2);
  } else {
    mixed = attend_to_summaries(rows, keys, keys.k.size(2), root, options);
  }
  return own.out * mixed.narrow(3, d, 1) + mixed.narrow(3, 0, d);
}

}  // namespace

torch::Tensor summary_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& mask,
                                const OpenKey& open, const SummaryAttentionOptions& options) {
  const int64_t batch = q.size(0), length = q.size(2), block = options.block;
  const Blocks blocks{split_blocks(q, mask, block), split_blocks(k, mask, block),
                      split_blocks(v, mask, block), split_mask(mask, block)};
  const OwnBlock own = attend_to_own_block(blocks, batch, length, options);
  const torch::Tensor out =
      with_summaries(join_blocks(blocks.q, batch, length), own,
                     summary_keys(blocks, batch, open, options), open.k.defined(), options);
  return zero_padded_rows(out.to(q.scalar_type()), mask);
}

int64_t summary_attention_bytes(int64_t rows, int64_t length, int64_t head_dim,
                                int64_t element_size, const SummaryAttentionOptions& options) {
  const int64_t block = options.block, count = block_count(length, block);
  const int64_t vector = rows * length * head_dim * element_size;  // one [B,H,N,d]
  const int64_t blocks = rows * count * block * head_dim * element_size;
  const int64_t scores = rows * count * block * block * std::max<int64_t>(element_size, 4);
  // q, k and v in blocks; within them the scores, their softmax and what the log-sum-exp takes of
  // them, and the output in blocks and joined.
  const int64_t within = 5 * blocks + 3 * scores;
  // Then the blocks' own output, queries and output with their extra columns, the summaries of k
  // and v, and the sum of both parts.
  const int64_t keys = 1 + count * options.columns();
  const int64_t mixed =
      3 * blocks + 3 * vector + 2 * rows * (length + keys) * summary_width(head_dim) * element_size;
  return std::max(within, mixed);
}

}  // namespace lra::ops::reference
