// Linear attention with softplus features: out = phi(Q) (phi(K)^T V) / (phi(Q) sum phi(K)), with
// phi(x) = log(1 + exp(beta x)) / beta. Cost: O(N d^2) time, O(N d) memory.
//
// An attention is one file like this one. Copy it, change the names, and build it in:
//   export LRA_EXTRA_VARIANTS=my_attention.cpp
//   ./run check --attention softplus                                         the contract
//   ./run train --task listops --attention 'softplus[beta=2]' --data data --run runs/softplus
//   ./run profile --attentions softplus,standard --out profile.jsonl
#include "attention_variants/ops/padding.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

// Read strictly: a misspelt option is an error that names the nearest. Every one stands in the
// records, with the value in effect.
struct SoftplusOptions {
  double beta = 1;
  template <class Fields>
  void fields(Fields& f) {
    f("beta", beta, more_than(0));
  }
};

// ProjectedAttention owns the projections to q, k and v and back.
class SoftplusAttention : public ProjectedAttention {
 public:
  SoftplusAttention(const AttentionContext& context, const SoftplusOptions& options)
      : ProjectedAttention(context), options_(options) {}

  // q, k, v [B,H,N,d], mask [B,N] bool (true = a token) -> [B,H,N,d]
  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    // Whatever stands at padded positions is replaced before it is used, not multiplied by zero.
    const auto query = torch::softplus(ops::zero_padding(q, mask), options_.beta);  // [B,H,N,d]
    const auto key =
        ops::zero_padding(torch::softplus(ops::zero_padding(k, mask), options_.beta), mask);
    const auto state = key.transpose(-2, -1).matmul(ops::zero_padding(v, mask));  // [B,H,d,d]
    const auto norm = query.matmul(key.sum(2).unsqueeze(-1)).clamp_min(1e-6);     // [B,H,N,1]
    return ops::zero_padding((query.matmul(state) / norm).to(q.scalar_type()), mask);
  }

  // However far samples are padded, the result is the same: evaluations need not pad to the full
  // length.
  bool length_invariant() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t d = context_.head_dim;
    return batch * context_.heads * length * (4 * d * d + 2 * d);
  }

 private:
  const SoftplusOptions options_;
};

[[maybe_unused]] const bool registered = register_attention<SoftplusAttention, SoftplusOptions>({
    .name = "softplus",
    .title = "Softplus",
    .paper = "example",
    .complexity = "O(N d²)",
    .linear = true,
});

}  // namespace
}  // namespace lra
