// Local attention: position i attends to its own block ⌊i/b⌋ and to nothing else.
//
// The "local attention" of Tay et al., "Long Range Arena", ICLR 2021. Cost: O(N b d) time, O(N d)
// memory: the blocks are a batch of small softmax attentions. A real token sees itself, so its
// block has a key. Causal: and no later position.
#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/ops/reference/blocks.h"
#include "attention_variants/ops/reference/causal.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

struct LocalOptions {
  int64_t block = 64;  // b; N <= b is softmax attention

  template <class Fields>
  void fields(Fields& f) {
    f("block", block, at_least(1));
  }
};

class LocalAttention : public ProjectedAttention {
 public:
  LocalAttention(const AttentionContext& context, const LocalOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    return ops::block_sparse_attention(
        context_.kernels, {q, k, v, mask, [&] { return ops::Patterns{pattern(q.size(2))}; },
                           [&] { return by_blocks(q, k, v, mask); }});
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

  bool sees_all(int64_t length) const override {
    return !context_.causal && length <= options_.block;
  }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim, block = block_of(length),
                  count = ops::reference::block_count(length, block);
    const auto by_blocks_bytes = [=] {
      // q, k and v in blocks, and the output.
      return 4 * rows * count * block * d * element_size +
             ops::reference::fused_attention_bytes(rows * count, block, block, d, element_size);
    };
    return ops::block_sparse_attention_bytes(
        context_.kernels, {batch, context_.heads, length, d, element_size,
                           [&] { return ops::Patterns{pattern(length)}; }, by_blocks_bytes});
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    return 4 * batch * context_.heads * ops::pair_count(pattern(length)) * context_.head_dim;
  }

 private:
  torch::Tensor by_blocks(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const torch::Tensor& mask) const {
    const int64_t block = block_of(q.size(2));
    const auto attend_block =
        context_.causal ? ops::reference::causal_attention : ops::reference::softmax_attention;
    const torch::Tensor out = attend_block(
        ops::reference::split_blocks(q, mask, block), ops::reference::split_blocks(k, mask, block),
        ops::reference::split_blocks(v, mask, block), ops::reference::split_mask(mask, block),
        /*dropout=*/0);
    return ops::zero_padded_rows(
        ops::reference::join_blocks(out, q.size(0), q.size(2)).to(q.scalar_type()), mask);
  }

  ops::SparsityPattern pattern(int64_t length) const {
    ops::SparsityPattern pattern;
    if (context_.causal) pattern.after = 0;
    for (int64_t begin = 0; begin < length; begin += options_.block) {
      const ops::KeyRange own{begin, std::min(begin + options_.block, length)};
      pattern.tiles.push_back(
          {.queries = own, .keys = {own}, .unbounded = context_.causal ? 0 : 1});
    }
    return pattern;
  }

  int64_t block_of(int64_t length) const { return std::min(options_.block, length); }

  const LocalOptions options_;
};

[[maybe_unused]] const bool local_registered = register_attention<LocalAttention, LocalOptions>({
    .name = "local",
    .title = "Local",
    .paper = "Tay et al., ICLR 2021 (LRA)",
    .complexity = "O(N b)",
    .softmax = Softmax::approximate,
    .budget = "block",
    .linear = true,
    .can_be_causal = true,
    .can_rotate = true,
    .peer = "masked softmax",
});

}  // namespace
}  // namespace lra
