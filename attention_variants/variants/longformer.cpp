// Longformer attention: position i attends to the positions j with |i - j| <= window/2; the first
// `global_tokens` attend to all positions and are attended by all.
//
// Beltagy et al., "Longformer: The Long-Document Transformer", arXiv 2020, section 3.1, with the
// same projections for global and local attention. Cost: O(N (window + g) d) time, O(N d) memory:
// a block of queries sees one stretch of keys, which is a view where there are no global tokens,
// through the fused kernel. A real token sees itself, so its row has a key.
#include <algorithm>
#include <cmath>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/ops/reference/blocks.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

/// What `window` counts.
enum class WindowForm {
  sides,    // window/2 positions to each side, and the position itself beside them
  counted,  // the position itself too: (window - 1)/2 to the left, window/2 to the right
};
constexpr auto names(WindowForm) { return std::array{"sides", "counted"}; }

struct LongformerOptions {
  int64_t window = 256;
  WindowForm window_form = WindowForm::sides;
  int64_t global_tokens = 0;  // g, the first positions of the sequence
  double dropout = 0;         // of the weights, in training

  template <class Fields>
  void fields(Fields& f) {
    f("window", window, at_least(1));
    f("global_tokens", global_tokens, at_least(0));
    f("window_form", window_form);
    f("dropout", dropout, between(0, 0.999));
  }

  void settle() const {
    if (window_form == WindowForm::sides && window % 2 != 0) {
      throw UsageError(
          "attention longformer: window should be even, half of it to each side, not " +
          std::to_string(window));
    }
  }

  // Positions seen to the left; to the right they are window/2.
  int64_t left() const { return (window - (window_form == WindowForm::counted ? 1 : 0)) / 2; }

  bool sees_all(int64_t length) const { return left() >= length - 1 || global_tokens >= length; }
};

// How a sequence is cut: `count` blocks of queries, each with a stretch of block + 2 half keys.
struct Layout {
  int64_t half, block, count;
};

Layout lay_out(const LongformerOptions& options, int64_t length) {
  const int64_t half = options.window / 2;
  const int64_t block = std::min(std::clamp<int64_t>(half, 16, 128), length);
  // So many absent rows follow each sample that no stretch has rows of two: what is NaN in one
  // would reach the other, times a weight of zero.
  return {
      half, block,
      ops::reference::block_count(length + half, block) + ops::reference::block_count(half, block)};
}

// Which of the keys of its stretch each query of a block sees, [block,block + 2 half] bool.
torch::Tensor band(const LongformerOptions& options, int64_t block,
                   const torch::TensorOptions& place) {
  const int64_t half = options.window / 2;
  const auto positions = [&](int64_t count) {
    return torch::arange(count, place.dtype(torch::kLong));
  };
  const torch::Tensor step = positions(block + 2 * half) - positions(block).unsqueeze(1);
  return step.ge(half - options.left()).logical_and(step.le(2 * half));
}

// Room for one column beyond d, in the multiples of 8 that GPU kernels need.
int64_t longformer_width(int64_t d) { return (d / 8 + 1) * 8; }

class LongformerAttention : public ProjectedAttention {
 public:
  LongformerAttention(const AttentionContext& context, const LongformerOptions& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    return with_padded_rows(of_tokens(q, k, v, mask), q, k, v, mask);
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

  bool sees_all(int64_t length) const override { return options_.sees_all(length); }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim;
    if (options_.sees_all(length)) {
      return ops::softmax_attention_bytes(context_.kernels,
                                          {rows, length, length, d, d, element_size});
    }
    return ops::block_sparse_attention_bytes(
        context_.kernels, {batch, context_.heads, length, d, element_size,
                           [&] { return ops::Patterns{pattern(length)}; },
                           [&] { return by_bands_bytes(rows, length, element_size); }});
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t rows = batch * context_.heads, d = context_.head_dim;
    const int64_t pairs =
        options_.sees_all(length) ? length * length : ops::pair_count(pattern(length));
    return 4 * rows * pairs * d;
  }

 private:
  torch::Tensor of_tokens(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const torch::Tensor& mask) const {
    const int64_t length = q.size(2);
    if (options_.sees_all(length)) {
      return ops::softmax_attention(
          context_.kernels,
          {q, k, v, mask, mask, {.dropout = options_.dropout, .training = is_training()}});
    }
    if (drops() && q.size(0) > 0) return by_bands(q, k, v, mask);
    return ops::block_sparse_attention(
        context_.kernels, {q, k, v, mask, [&] { return ops::Patterns{pattern(length)}; },
                           [&] { return by_bands(q, k, v, mask); }});
  }

  bool drops() const { return options_.dropout > 0 && is_training(); }

  // Of `rows` heads, without global tokens.
  int64_t by_bands_bytes(int64_t rows, int64_t length, int64_t element_size) const {
    if (options_.global_tokens > 0) return -1;
    const int64_t d = context_.head_dim;
    const Layout layout = lay_out(options_, length);
    const int64_t width = longformer_width(d), span = layout.block + 2 * layout.half;
    // q, k, v and the output in blocks, k and v with a margin to each side.
    const int64_t blocks = 4 * rows * layout.count * layout.block * width,
                  margins = 4 * layout.half * context_.heads * width;
    // What a row sees: counted as int64, as bool, and as the kernel's own numbers.
    const int64_t seen = layout.block * span * (8 + 1 + element_size);
    return (blocks + margins) * element_size + seen +
           ops::reference::fused_attention_bytes(rows * layout.count, layout.block, span, width,
                                                 element_size);
  }

  ops::SparsityPattern pattern(int64_t length) const {
    const int64_t g = options_.global_tokens, half = options_.window / 2,
                  block = lay_out(options_, length).block;
    ops::SparsityPattern pattern{.tiles = {}, .before = options_.left(), .after = half};
    if (g > 0) pattern.tiles.push_back({.queries = {0, g}, .keys = {{0, length}}, .unbounded = 1});
    for (int64_t begin = g; begin < length; begin += block) {
      const int64_t end = std::min(begin + block, length);
      const ops::KeyRange band{std::max(g, begin - options_.left()), std::min(length, end + half)};
      // The band leaves the global tokens out: each pair counts once.
      pattern.tiles.push_back({.queries = {begin, end}, .keys = {{0, g}, band}, .unbounded = 1});
    }
    return pattern;
  }

  torch::Tensor by_bands(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& mask) const {
    const int64_t length = q.size(2), g = options_.global_tokens;
    torch::Tensor out = banded(q, k, v, mask);
    if (g > 0) {
      const torch::Tensor global = ops::softmax_attention(
          ops::Kernels::reference, {q.narrow(2, 0, g),
                                    k,
                                    v,
                                    mask,
                                    mask.narrow(1, 0, g),
                                    {.dropout = options_.dropout, .training = is_training()}});
      out = torch::cat({global, out.narrow(2, g, length - g)}, 2);
    }
    return ops::zero_padded_rows(out.to(q.scalar_type()), mask);
  }

  // Which keys a row sees is the same in every block; which keys are there is not, and a mask of
  // both would hold B x N x (block + window). So their absence is a column of the keys, times 1 in
  // the queries: kAbsentLogit, or 0.
  torch::Tensor banded(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) const {
    const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2), d = q.size(3);
    const int64_t g = options_.global_tokens, width = longformer_width(d);
    const auto [half, block, count] = lay_out(options_, length);
    const int64_t rows = count * block, span = block + 2 * half;

    // All samples' rows in one tensor, with `margin` rows before and after:
    // [margin + B*rows + margin, H, width].
    const auto flat = [&](const torch::Tensor& x, int64_t margin, double outside,
                          const torch::Tensor& column) {
      torch::Tensor all = torch::zeros({batch * rows + 2 * margin, heads, width}, x.options());
      all.select(2, d).fill_(outside);
      const torch::Tensor own = all.narrow(0, margin, batch * rows)
                                    .view({batch, rows, heads, width})
                                    .narrow(1, 0, length);  // [B,N,H,width]
      own.select(3, d).copy_(column);
      own.narrow(3, 0, d).copy_(ops::zero_padding(x, mask).transpose(1, 2));
      return all;
    };
    const torch::Tensor none = torch::zeros({1, 1, 1}, q.options()), one = torch::ones_like(none);
    const torch::Tensor absent = none.masked_fill(mask.logical_not().unsqueeze(-1),
                                                  ops::reference::kAbsentLogit);  // [B,N,1]
    const torch::Tensor in_band = absent.clone();
    // The band leaves the global tokens out: each pair counts once.
    in_band.narrow(1, 0, g).fill_(ops::reference::kAbsentLogit);
    // Blocks with queries alone, where stretches are copied in any case.
    const int64_t used = drops() ? ops::reference::block_count(length, block) : count;
    const auto of_used = [&, count = count](const torch::Tensor& all) {  // [B*used,..]
      return used == count ? all
                           : all.unflatten(0, {batch, count}).narrow(1, 0, used).flatten(0, 1);
    };
    const torch::Tensor queries =
        of_used(flat(q, 0, 1, one).view({batch * count, block, heads, width}).transpose(1, 2));
    const auto stretches = [&](const torch::Tensor& all) {  // a view, or not: [B*used,H,span,width]
      return of_used(all.unfold(0, span, block).transpose(2, 3));
    };
    torch::Tensor keys = stretches(flat(k, half, ops::reference::kAbsentLogit, in_band)),
                  values = stretches(flat(v, half, 0, none));

    torch::Tensor seen = band(options_, block, mask.options());  // [block,span]
    if (g > 0) {
      const auto with_global = [&](const torch::Tensor& x, const torch::Tensor& column,
                                   const torch::Tensor& others) {
        const torch::Tensor first =
            torch::cat({ops::zero_padding(x.narrow(2, 0, g), mask.narrow(1, 0, g)),
                        column.unsqueeze(1).expand({batch, heads, g, 1}),
                        none.unsqueeze(0).expand({batch, heads, g, width - d - 1})},
                       3);  // [B,H,g,width]
        const torch::Tensor each =
            first.unsqueeze(1).expand({batch, used, heads, g, width}).flatten(0, 1);
        return torch::cat({each, others}, 2);  // [B*used,H,g+span,width]
      };
      keys = with_global(k, absent.narrow(1, 0, g), keys);
      values = with_global(v, none, values);
      seen = at::constant_pad_nd(seen, {g, 0}, true);
    }
    const torch::Tensor out = attend_dropping(queries, keys, values, seen, d);
    return ops::reference::join_blocks(out, batch, length).narrow(3, 0, d);
  }

  // softmax(q kᵀ / √d) v over the keys that `seen` [block,span] marks, with the dropout.
  torch::Tensor attend_dropping(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& seen,
                                int64_t d) const {
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    if (!drops()) {
      return at::scaled_dot_product_attention(q, k, v, seen.unsqueeze(0).unsqueeze(0),
                                              /*dropout_p=*/0, /*is_causal=*/false, scale);
    }
    const torch::Tensor scores = torch::matmul(q * scale, k.transpose(-2, -1))
                                     .masked_fill(seen.logical_not(), ops::reference::kAbsentLogit);
    return torch::matmul(
        ops::philox_dropout(torch::softmax(scores, -1), options_.dropout, /*training=*/true), v);
  }

  const LongformerOptions options_;
};

[[maybe_unused]] const bool longformer_registered =
    register_attention<LongformerAttention, LongformerOptions>({
        .name = "longformer",
        .title = "Longformer",
        .paper = "Beltagy et al., arXiv 2020",
        .complexity = "O(N w)",
        .softmax = Softmax::approximate,
        .budget = "window",
        .linear = true,
        .can_rotate = true,
        .uniform_padding = true,
        .peer = "transformers, masked softmax",
    });

}  // namespace
}  // namespace lra
