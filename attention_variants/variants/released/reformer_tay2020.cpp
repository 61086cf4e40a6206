// The "reformer" attention of LRA's released models, which is another function than Reformer.
//
// google-research/long-range-arena, lra_benchmarks/models/reformer/reformer_attention.py, lines
// 79-338. Queries and keys are one vector x. Zero vectors are appended up to the next multiple of
// 10, ten where N divides; one hash of 10 buckets, the rotation from JAX's key 0, the same in all
// heads, layers and passes; sorted by (bucket, position) and cut into 10 chunks, of which each
// attends to itself and, cyclically, to the one before it. Logits are x·y √d of vectors that are
// not normalised; a token sees itself; nothing is masked, the appended zeros neither. There is no
// output projection, and heads are not brought back beside positions: [H,L,d] is reshaped to [L,H
// d], so that a row of the result holds neighbouring positions of one head, and what stands behind
// row N is lost. Cost: O(N²) in tenths: each token sees N/5 keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "attention_variants/attention.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/registry.h"
#include "attention_variants/variants/released/jax_random.h"

namespace lra {
namespace {

constexpr int64_t kReleasedChunks = 10;  // and buckets, and the multiple of positions

struct ReformerTay2020Options {
  template <class Fields>
  void fields(Fields&) {}
};

class ReformerTay2020 : public Attention {
 public:
  ReformerTay2020(const AttentionContext& context, const ReformerTay2020Options& options)
      : context_(context), options_(options) {
    const int64_t joined = context.heads * context.head_dim;
    if (joined != context.width) {
      throw UsageError(fmt::format(
          "attention reformer_tay2020 has no output projection: heads times head_dim should be the "
          "width {}, not {} times {}",
          context.width, context.heads, context.head_dim));
    }
    const auto layer = [&](const char* name) {
      return register_module(
          name,
          torch::nn::Linear(torch::nn::LinearOptions(context.width, joined).bias(context.bias)));
    };
    query_key_ = layer("query_key");
    value_ = layer("value");
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) override {
    if (x.dim() != 3 || x.size(2) != context_.width)
      throw Error(fmt::format("x should be [B,N,{}], not {}", context_.width, shape_text(x)));
    check_mask(mask, x.size(0), x.size(1), x.device());
    const auto heads = [&](const torch::Tensor& y) {
      return y.view({x.size(0), x.size(1), context_.heads, context_.head_dim}).transpose(1, 2);
    };
    const torch::Tensor shared = heads(query_key_->forward(x));
    return attend(shared, shared, heads(value_->forward(x)), mask)
        .transpose(1, 2)
        .reshape(x.sizes());
  }

  torch::Tensor attend(const torch::Tensor& q_given, const torch::Tensor& k,
                       const torch::Tensor& v_given, const torch::Tensor& mask) override {
    check_attend_inputs(q_given, k, v_given, mask);
    if (!k.is_same(q_given) && !torch::equal(k, q_given))
      throw Unsupported(
          "reformer_tay2020 reads one tensor as queries and as keys: k should equal q");
    const int64_t batch = q_given.size(0), heads = q_given.size(1), length = q_given.size(2),
                  d = q_given.size(3), missing = kReleasedChunks - length % kReleasedChunks,
                  whole = length + missing;
    const torch::Tensor q = at::constant_pad_nd(q_given, {0, 0, 0, missing}),
                        v = at::constant_pad_nd(v_given, {0, 0, 0, missing});
    const torch::Tensor order = sorted_positions(q.detach());  // [B,H,L]
    const torch::Tensor place = order.unsqueeze(-1).expand({batch, heads, whole, d});
    const auto chunks = [&](const torch::Tensor& x) {  // [B,H,10,L/10,d]
      return x.gather(2, place).view({batch, heads, kReleasedChunks, whole / kReleasedChunks, d});
    };
    const auto with_previous = [](const torch::Tensor& x) {
      return torch::cat({x, x.roll(1, 2)}, 3);
    };
    const torch::Tensor x = chunks(q), values = with_previous(chunks(v));
    const auto type = ops::wide_type(q.scalar_type());
    const torch::Tensor weights = torch::softmax(
        torch::matmul(x * std::sqrt(static_cast<double>(d)), with_previous(x).transpose(-2, -1))
            .to(type),
        -1);
    const torch::Tensor sorted =
        torch::matmul(weights.to(values.scalar_type()), values).view({batch, heads, whole, d});
    const torch::Tensor out = torch::zeros_like(sorted).scatter(2, place, sorted);  // [B,H,L,d]
    const torch::Tensor rows =
        out.reshape({batch, whole, heads, d}).narrow(1, 0, length).transpose(1, 2);
    return context_.padded_rows == PaddedRows::uniform ? rows : ops::zero_padding(rows, mask);
  }

  Projections projections() const override { return Projections::shared_query_key; }

  std::vector<std::string> tables() const override { return {"rotations"}; }
  const char* tables_from() const override { return ""; }  // JAX's key 0 does

  /// rotations [H,d,1,5]
  void set_table(const std::string& name, const torch::Tensor& table) override {
    if (name != "rotations") return Attention::set_table(name, table);
    if (!table.defined() || table.dim() != 4 || table.size(2) != 1 ||
        table.size(3) != kReleasedChunks / 2 || !table.is_floating_point())
      throw Error("table rotations should be [H,d,1,5], of a floating-point type");
    const std::scoped_lock lock(drawing_);
    rotations_ = table.select(2, 0).to(torch::kFloat);
  }

  bool reads_padding() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t whole = length + kReleasedChunks - length % kReleasedChunks,
                  d = context_.head_dim;
    return batch * context_.heads * whole * d *
           (kReleasedChunks + 8 * whole / kReleasedChunks);  // two products of 2 L/10 keys each
  }

 private:
  // [H or 1,d,5]; several threads may call attend().
  torch::Tensor rotations(int64_t d) {
    const std::scoped_lock lock(drawing_);
    if (!rotations_.defined() || rotations_.size(1) != d)
      rotations_ = released::jax_normal(d * kReleasedChunks / 2).view({1, d, kReleasedChunks / 2});
    return rotations_;
  }

  // q [B,H,L,d] -> [B,H,L]: positions by (bucket, position).
  torch::Tensor sorted_positions(const torch::Tensor& q) {
    const auto type = ops::wide_type(q.scalar_type());
    const torch::Tensor rotated =
        torch::matmul(q.to(type), rotations(q.size(3)).to(q.device(), type));  // [B,H,L,5]
    const torch::Tensor bucket = torch::cat({rotated, -rotated}, -1).argmax(-1);
    return std::get<1>(bucket.sort(/*stable=*/true, -1, /*descending=*/false));
  }

  const AttentionContext context_;
  const ReformerTay2020Options options_;
  torch::nn::Linear query_key_{nullptr}, value_{nullptr};
  std::mutex drawing_;
  torch::Tensor rotations_;
};

[[maybe_unused]] const bool reformer_tay2020_registered =
    register_attention<ReformerTay2020, ReformerTay2020Options>({
        .name = "reformer_tay2020",
        .title = "Reformer, LRA's release",
        .paper = "Tay et al., ICLR 2021 (LRA)",
        .complexity = "O(N²/5)",
        .state = "rotations [H,d,1,5], from JAX's key 0",
        .uniform_padding = true,
        .why_unrotated = "the released code has none",
        .peer = "long-range-arena",
        .released_form_of = "reformer",
    });

}  // namespace
}  // namespace lra
