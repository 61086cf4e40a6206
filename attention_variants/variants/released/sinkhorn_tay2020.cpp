// The "sinkhorn" attention of LRA's released models, which sorts nothing.
//
// google-research/long-range-arena, lra_benchmarks/models/sinkhorn_transformer/
// sinkhorn_attention.py, lines 339-493: the sequence is reshaped to [b, N/b] (strided groups, as in
// local_tay2020.cpp). The einsum of the "sorted" keys has two letters of their own, so that the
// permutation is summed to 1 and every block gets the sums of all: of runs of N/b neighbours, b of
// them. out = softmax over the own group + softmax over the b sums. The sorting net has no effect
// and no gradient, and is left out. Run j is seen from slot s where for some k positions k b + s
// and k b + j are both real; padding is summed too. Cost: O(N b d).
#include "attention_variants/ops/padding.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "attention_variants/variants/released/strided_groups.h"

namespace lra {
namespace {

struct SinkhornTay2020Options {
  int64_t block = 50;  // b; where N is no multiple, which the release refuses, zeros are appended
  double dropout = 0;  // of the weights of both softmaxes, in training

  template <class Fields>
  void fields(Fields& f) {
    f("block", block, at_least(1));
    f("dropout", dropout, between(0, 0.999));
  }
};

class SinkhornTay2020 : public ProjectedAttention {
 public:
  SinkhornTay2020(const AttentionContext& context, const SinkhornTay2020Options& options)
      : ProjectedAttention(context), options_(options) {}

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    const int64_t length = q.size(2), block = options_.block;
    const released::StridedGroups groups((length + block - 1) / block * block, block);
    const torch::Tensor queries = groups.split(q), keys = groups.split(k), values = groups.split(v),
                        bits = groups.mask(mask);  // [B,1,N/b,b]
    const auto attend_to = [&](const torch::Tensor& to, const torch::Tensor& of,
                               const torch::Tensor& seen) {
      return released::masked_attention(queries, to, of, seen, options_.dropout, is_training());
    };
    const torch::Tensor own =
        attend_to(keys, values, bits.unsqueeze(-1).logical_and(bits.unsqueeze(-2)));
    // [B,1,1,b,b]: slot s and run j.
    const torch::Tensor count = bits.to(torch::kFloat);
    const torch::Tensor seen = torch::matmul(count.transpose(-2, -1), count).gt(0).unsqueeze(2);
    const torch::Tensor sums =
        attend_to(keys.sum(2, /*keepdim=*/true), values.sum(2, /*keepdim=*/true), seen);
    const torch::Tensor out = groups.join(own + sums, length);
    return context_.padded_rows == PaddedRows::uniform ? out : ops::zero_padding(out, mask);
  }

  bool reads_padding() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t block = options_.block, whole = (length + block - 1) / block * block;
    return 8 * batch * context_.heads * whole * block * context_.head_dim;
  }

 private:
  const SinkhornTay2020Options options_;
};

[[maybe_unused]] const bool sinkhorn_tay2020_registered =
    register_attention<SinkhornTay2020, SinkhornTay2020Options>({
        .name = "sinkhorn_tay2020",
        .title = "Sinkhorn, LRA's release",
        .paper = "Tay et al., ICLR 2021 (LRA)",
        .complexity = "O(N b)",
        .linear = true,
        .uniform_padding = true,
        .why_unrotated = "the released code has none",
        .peer = "long-range-arena",
        .released_form_of = "sinkhorn",
    });

}  // namespace
}  // namespace lra
