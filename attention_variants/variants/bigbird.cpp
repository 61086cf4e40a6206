// BigBird attention by blocks of b positions: a block of queries sees the first and the last block
// of keys, the one before it, its own, the one after it, and r random others, drawn for each head
// from the seed; the first and the last block see all.
//
// Zaheer et al., "Big Bird: Transformers for Longer Sequences", NeurIPS 2020 (internal transformer
// construction). Cost: O(N (5 + r) b d) time, O(N (5 + r) d) memory: the keys that a block sees are
// gathered, and go through the fused kernel as a small attention of their own. A real token sees
// itself.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/blocks.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "attention_variants/variants/released/bigbird_blocks.h"

namespace lra {
namespace {

/// What stands behind the sequence.
enum class BigbirdAppend {
  none,
  block,  // zero vectors up to the next multiple of the block, a whole one where N divides, seen as
          // keys, as in LRA's release (lra_benchmarks/models/bigbird/bigbird_attention.py:484-492)
};
constexpr auto names(BigbirdAppend) { return std::array{"none", "block"}; }

struct BigbirdOptions {
  int64_t block = 64;         // b
  int64_t random_blocks = 3;  // r
  int64_t seed = -1;          // of the random blocks; -1 = the layer's own
  // 0: drawn among all blocks; n: among those of the first n positions, as LRA's release draws them
  // where a block is appended, and as Skyformer's does where none is, by NumPy's generator, from
  // `seed` or else the layer's number.
  int64_t random_range = 0;
  BigbirdAppend append = BigbirdAppend::none;

  template <class Fields>
  void fields(Fields& f) {
    f("block", block, at_least(1));
    f("random_blocks", random_blocks, at_least(0));
    f("seed", seed, at_least(-1));
    f("random_range", random_range, at_least(0));
    f("append", append);
  }

  void settle() const {
    if (random_blocks == 0 && (seed != -1 || random_range != 0))
      throw UsageError(
          "attention bigbird: seed and random_range have an effect only where random_blocks is at "
          "least 1; leave them out, or set it");
    if (random_range > 0 && random_range < 3 * block)
      throw UsageError(fmt::format(
          "attention bigbird: random_range should be 0 or at least three blocks ({}), as the first "
          "and the last of them are seen anyway, not {}",
          3 * block, random_range));
  }
};

// Throws Error where a table is not random_blocks [H,N/b,r].
void check_block_table(const torch::Tensor& table, int64_t r) {
  if (!table.defined() || table.dim() != 3 || table.size(2) != r ||
      !at::isIntegralType(table.scalar_type(), /*includeBool=*/false)) {
    throw Error(fmt::format("table random_blocks should be [H,N/b,{}] of integers, not {}", r,
                            shape_text(table)));
  }
  if (table.lt(-1).logical_or(table.ge(table.size(1))).any().item<bool>()) {
    throw Error(fmt::format("table random_blocks should hold blocks from 0 to {}, or -1 for none",
                            table.size(1) - 1));
  }
}

void check_table_fits(const torch::Tensor& table, int64_t heads, int64_t count) {
  if (table.size(0) == heads && table.size(1) == count) return;
  throw Error(
      fmt::format("table random_blocks should be [{},{},{}] for {} heads and {} blocks, not [{}]",
                  heads, count, table.size(2), heads, count, fmt::join(table.sizes(), ",")));
}

class BigbirdAttention : public ProjectedAttention {
 public:
  BigbirdAttention(const AttentionContext& context, const BigbirdOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (options_.append == BigbirdAppend::none) return of_blocks(q, k, v, mask);
    const int64_t length = q.size(2), missing = appended(length);
    const auto more = [&](const torch::Tensor& x) {
      return at::constant_pad_nd(ops::zero_padding(x, mask), {0, 0, 0, missing});
    };
    return of_blocks(more(q), more(k), more(v), at::constant_pad_nd(mask, {0, missing}, true))
        .narrow(2, 0, length);
  }

  std::vector<std::string> tables() const override { return {"random_blocks"}; }
  const char* tables_from() const override {
    if (options_.random_blocks == 0 || options_.seed >= 0) return "";
    return options_.random_range > 0 ? "layer" : "seed";
  }

  /// random_blocks [H,N/b,r], integers: the blocks that each block sees beside those it always
  /// does, -1 for none. Rows of the first and last block are not read. A block listed twice, or
  /// seen anyway, counts once more each time, as in transformers.
  void set_table(const std::string& name, const torch::Tensor& table) override {
    if (name != "random_blocks") return Attention::set_table(name, table);
    check_block_table(table, options_.random_blocks);
    given_ = table.to(torch::kLong).clone();
  }

  bool capturable() const override { return true; }

  bool sees_all(int64_t length) const override {
    return options_.append == BigbirdAppend::none &&
           sees_all_blocks(ops::reference::block_count(length, options_.block));
  }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    // Training depends on when autograd frees what.
    if (training || options_.append == BigbirdAppend::block) return -1;
    const int64_t heads = context_.heads, d = context_.head_dim;
    if (sees_all_blocks(ops::reference::block_count(length, options_.block))) {
      return ops::softmax_attention_bytes(context_.kernels,
                                          {batch * heads, length, length, d, d, element_size});
    }
    return ops::block_sparse_attention_bytes(
        context_.kernels,
        {batch, heads, length, d, element_size, [&] { return patterns(heads, length); }, {}});
  }

  int64_t flops(int64_t batch, int64_t given_length) const override {
    const int64_t length = given_length + appended(given_length), heads = context_.heads,
                  d = context_.head_dim;
    if (sees_all_blocks(ops::reference::block_count(length, options_.block)))
      return 4 * batch * heads * d * length * length;
    return ops::block_sparse_attention_flops({.batch = batch,
                                              .heads = heads,
                                              .length = length,
                                              .head_dim = d,
                                              .patterns = [&] { return patterns(heads, length); },
                                              .fallback_bytes = {}});
  }

 private:
  // Positions behind `length` others.
  int64_t appended(int64_t length) const {
    if (options_.append == BigbirdAppend::none) return 0;
    return options_.block - length % options_.block;
  }

  torch::Tensor of_blocks(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const torch::Tensor& mask) {
    const int64_t count = ops::reference::block_count(q.size(2), options_.block);
    if (given_.defined()) check_table_fits(given_, q.size(1), count);
    if (sees_all_blocks(count))
      return ops::softmax_attention(context_.kernels, {q, k, v, mask, mask});
    return ops::block_sparse_attention(
        context_.kernels, {q, k, v, mask, [&] { return patterns(q.size(1), q.size(2)); },
                           [&] {
                             return ops::zero_padded_rows(
                                 by_blocks(q, k, v, mask).to(q.scalar_type()), mask);
                           }});
  }

  // The second block sees four without the random ones; the others between the ends at least as
  // many.
  bool sees_all_blocks(int64_t count) const {
    return !given_.defined() && count <= 4 + options_.random_blocks;
  }

  // One a head.
  ops::Patterns patterns(int64_t heads, int64_t length) const {
    const int64_t block = options_.block, count = ops::reference::block_count(length, block);
    const auto range = [&](int64_t i) {
      return ops::KeyRange{i * block, std::min((i + 1) * block, length)};
    };
    const torch::Tensor table = count > 2 ? seen_blocks(heads, count) : torch::Tensor();
    ops::Patterns patterns(static_cast<size_t>(heads));
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < count; ++i) {
        ops::SparsityTile tile{.queries = range(i), .keys = {}};
        if (i == 0 || i == count - 1) {
          tile.keys = {{0, length}};
        } else {
          const auto seen = table.accessor<int64_t, 3>()[h][i - 1];
          for (int64_t j = 0; j < table.size(2); ++j) {
            if (seen[j] >= 0) tile.keys.push_back(range(seen[j]));
          }
        }
        tile.unbounded = std::ssize(tile.keys);
        patterns[static_cast<size_t>(h)].tiles.push_back(std::move(tile));
      }
    }
    return patterns;
  }

  torch::Tensor by_blocks(const torch::Tensor& q_given, const torch::Tensor& k_given,
                          const torch::Tensor& v_given, const torch::Tensor& mask) {
    const int64_t batch = q_given.size(0), heads = q_given.size(1), length = q_given.size(2),
                  d = q_given.size(3), block = options_.block;
    const int64_t count = ops::reference::block_count(length, block),
                  inner = std::max<int64_t>(count - 2, 0);
    const int64_t missing = count * block - length;
    const auto whole_blocks = [&](const torch::Tensor& x) {  // [B,H,count*b,d], contiguous
      const torch::Tensor zeroed = ops::zero_padding(x, mask);
      return (missing == 0 ? zeroed : at::constant_pad_nd(zeroed, {0, 0, 0, missing})).contiguous();
    };
    const torch::Tensor q = whole_blocks(q_given), k = whole_blocks(k_given),
                        v = whole_blocks(v_given);
    const torch::Tensor real = at::constant_pad_nd(mask, {0, missing});  // [B,count*b]

    // The ends see all, whatever the table.
    const int64_t last = (count - 1) * block;
    torch::Tensor ends = q.narrow(2, 0, block);
    if (count > 1) ends = torch::cat({ends, q.narrow(2, last, block)}, 2);
    ends = ops::reference::softmax_attention(ends, k, v, real);
    if (inner == 0) return ends.narrow(2, 0, length);

    const torch::Tensor seen = seen_blocks_on(q.device(), heads, count);  // [H,inner,5+r]
    const torch::Tensor index = seen.clamp_min(0);
    const torch::Tensor head = torch::arange(heads, index.options()).view({heads, 1, 1}) * count;
    const auto gather = [&](const torch::Tensor& x) {  // [B,H*inner,(5+r)*b,d]
      return x.view({batch, heads * count, block, d})
          .index_select(1, (index + head).flatten())
          .view({batch, heads * inner, -1, d});
    };
    const torch::Tensor there = real.view({batch, count, block})
                                    .index_select(1, index.flatten())
                                    .logical_and(seen.ge(0).view({1, -1, 1}))
                                    .view({batch, heads * inner, 1, -1});  // [B,H*inner,1,(5+r)*b]
    torch::Tensor middle = at::scaled_dot_product_attention(
        q.narrow(2, block, inner * block).reshape({batch, heads * inner, block, d}), gather(k),
        gather(v), ops::nonempty_rows(there));
    middle = middle.reshape({batch, heads, inner * block, d});
    return torch::cat({ends.narrow(2, 0, block), middle, ends.narrow(2, block, block - missing)},
                      2);
  }

  // The blocks that those between the ends see [H,count-2,5+r]; -1 = none.
  torch::Tensor seen_blocks(int64_t heads, int64_t count) const {
    const int64_t inner = count - 2;
    const torch::Tensor random = given_.defined() ? given_.cpu() : drawn(heads, count);
    const torch::Tensor fixed = ops::reference::fixed_blocks(count).unsqueeze(0).expand(
        {heads, inner, ops::reference::kFixedBlocks});
    return torch::cat({fixed, random.narrow(1, 1, inner)}, 2);
  }

  // seen_blocks(), sent once where it is drawn.
  torch::Tensor seen_blocks_on(torch::Device device, int64_t heads, int64_t count) const {
    if (device.is_cpu() || given_.defined()) return seen_blocks(heads, count).to(device);
    const std::scoped_lock lock(sending_);
    torch::Tensor& sent = sent_[{heads, count}];
    if (!sent.defined() || sent.device() != device) sent = seen_blocks(heads, count).to(device);
    return sent;
  }

  torch::Tensor draw(int64_t heads, int64_t count) const {
    const bool own = options_.seed < 0;
    if (options_.random_range == 0) {
      return ops::reference::draw_blocks(
          heads, count, options_.random_blocks,
          own ? context_.seed : static_cast<uint64_t>(options_.seed));
    }
    return released::bigbird_blocks(
        {.release = options_.append == BigbirdAppend::block ? released::BigbirdRelease::lra
                                                            : released::BigbirdRelease::skyformer,
         .heads = heads,
         .blocks = count,
         .random = options_.random_blocks,
         .range = options_.random_range / options_.block,
         .seed = static_cast<uint32_t>(own ? context_.layer : options_.seed)});
  }

  // draw(), kept: several threads may call attend().
  torch::Tensor drawn(int64_t heads, int64_t count) const {
    const std::scoped_lock lock(drawing_);
    torch::Tensor& table = drawn_[{heads, count}];
    if (!table.defined()) table = draw(heads, count);
    return table;
  }

  const BigbirdOptions options_;
  torch::Tensor given_;  // undefined: drawn
  mutable std::mutex drawing_;
  mutable std::map<std::pair<int64_t, int64_t>, torch::Tensor> drawn_;  // by heads and blocks
  mutable std::mutex sending_;
  mutable std::map<std::pair<int64_t, int64_t>, torch::Tensor> sent_;  // on the last device
};

[[maybe_unused]] const bool bigbird_registered =
    register_attention<BigbirdAttention, BigbirdOptions>({
        .name = "bigbird",
        .title = "BigBird",
        .paper = "Zaheer et al., NeurIPS 2020",
        .complexity = "O(N b r)",
        .softmax = Softmax::approximate,
        .budget = "random_blocks",
        .linear = true,
        .state = "table random_blocks [H,N/b,r], drawn from the seed",
        .can_rotate = true,
        .peer = "transformers, masked softmax",
    });

}  // namespace
}  // namespace lra
