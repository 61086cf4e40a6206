// The "local" attention of LRA's released models, which is another function than local attention.
//
// google-research/long-range-arena, lra_benchmarks/models/local/local_attention.py, lines 226-360:
// zero vectors are appended up to the next multiple of the block b, a whole block where N divides;
// the sequence of length L is reshaped to [b, L/b], so that position p is in group p mod (L/b): the
// groups are strided, and no group ever sees another. The mask, true at what was appended, is cut
// in runs instead: slot s of group g has bit g b + s. A query of bit false attends to all keys of
// its group alike, a query of bit true to those of bit true. Cost: O(N b d).
#include "attention_variants/ops/padding.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "attention_variants/variants/released/strided_groups.h"

namespace lra {
namespace {

struct LocalTay2020Options {
  int64_t block = 50;  // b
  double dropout = 0;  // of the weights, in training

  template <class Fields>
  void fields(Fields& f) {
    f("block", block, at_least(1));
    f("dropout", dropout, between(0, 0.999));
  }
};

class LocalTay2020 : public ProjectedAttention {
 public:
  LocalTay2020(const AttentionContext& context, const LocalTay2020Options& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    const int64_t length = q.size(2), block = options_.block;
    const released::StridedGroups groups(length + block - length % block, block);
    const torch::Tensor bits = groups.mask(mask);  // [B,1,L/b,b]
    const torch::Tensor out = released::masked_attention(
        groups.split(q), groups.split(k), groups.split(v),
        bits.unsqueeze(-1).logical_and(bits.unsqueeze(-2)), options_.dropout, is_training());
    return padded_rows(groups.join(out, length), mask);
  }

  bool reads_padding() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t block = options_.block, whole = length + block - length % block;
    return 4 * batch * context_.heads * whole * block * context_.head_dim;
  }

 private:
  torch::Tensor padded_rows(const torch::Tensor& out, const torch::Tensor& mask) const {
    return context_.padded_rows == PaddedRows::uniform ? out : ops::zero_padding(out, mask);
  }

  const LocalTay2020Options options_;
};

[[maybe_unused]] const bool local_tay2020_registered =
    register_attention<LocalTay2020, LocalTay2020Options>({
        .name = "local_tay2020",
        .title = "Local, LRA's release",
        .paper = "Tay et al., ICLR 2021 (LRA)",
        .complexity = "O(N b)",
        .linear = true,
        .uniform_padding = true,
        .why_unrotated = "the released code has none",
        .peer = "long-range-arena",
        .released_form_of = "local",
    });

}  // namespace
}  // namespace lra
