// Causal forms against the whole matrix written out, with their gradients.
#include <algorithm>

#include "tests/attention_variants/pattern.h"

namespace lra {
namespace {

const AttentionContext kCausal = {
    .width = 8, .heads = 2, .head_dim = 4, .max_length = 256, .seed = 3, .causal = true};

TEST(Causal, EqualsSoftmaxOverWhatIsBefore) {
  struct Form {
    const char* spec;
    Pattern pattern;
  };
  const Form cases[] = {
      {"standard", [](int64_t, int64_t i, int64_t j) { return j <= i; }},
      {"standard[implementation=materialized]",
       [](int64_t, int64_t i, int64_t j) { return j <= i; }},
      {"local[block=8]", [](int64_t, int64_t i, int64_t j) { return j <= i && i / 8 == j / 8; }},
      {"sparse[block=8,summary=2]",
       [](int64_t, int64_t i, int64_t j) {
         return j <= i && (i / 8 == j / 8 || j % 8 == 0 || j % 8 >= 6);
       }},
  };
  for (const auto& [spec, pattern] : cases) {
    const auto attention = make(spec, torch::kDouble, kCausal);
    for (const int64_t n : {1, 3, 31, 129}) {
      EXPECT_LT(deviation_from_pattern(*attention, n, pattern), 1e-13) << spec << ", N = " << n;
      EXPECT_LT(deviation_from_pattern(*attention, n, pattern, scattered_mask(n)), 1e-13)
          << spec << ", N = " << n << ", scattered padding";
    }
  }
}

// Own kernels, in float32, of more positions than one tile of queries has.
TEST(Causal, KernelsAgreeWithFloat64) {
  for (const char* spec : {"standard", "local[block=48]", "sparse[block=32,summary=4]", "linear"}) {
    std::vector<torch::Tensor> results[2];
    for (const auto type : {torch::kDouble, torch::kFloat}) {
      const auto attention = make(spec, type, kCausal);
      Inputs in = make_inputs({300, 200, 1, 0}, 300, torch::kFloat);
      for (torch::Tensor* t : {&in.q, &in.k, &in.v}) *t = t->to(type).requires_grad_();
      const torch::Tensor out = attend(*attention, in);
      out.backward(make_inputs({0, 0, 0, 0}, 300, torch::kDouble, 2, 4, 8).q.to(type));
      results[type == torch::kDouble ? 0 : 1] = {out, in.q.grad(), in.k.grad(), in.v.grad()};
    }
    for (size_t i = 0; i < 4; ++i)
      EXPECT_LT(difference(results[1][i], results[0][i]), 1e-5) << spec << ", tensor " << i;
  }
}

// φ(q_i)·φ(k_j) over j <= i, normalised, with autograd's gradients: q, k, v [B,H,N,d].
torch::Tensor linear_formula(const Inputs& in) {
  const torch::Tensor real = in.mask.unsqueeze(1).unsqueeze(2);  // [B,1,1,N]
  const torch::Tensor kernel = torch::matmul(torch::elu(in.q) + 1, (torch::elu(in.k) + 1).mT())
                                   .masked_fill(real.logical_not(), 0)
                                   .tril();
  return (kernel / kernel.sum(-1, /*keepdim=*/true).clamp_min(1e-30))
      .matmul(in.v)
      .masked_fill(in.mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

TEST(Causal, LinearEqualsItsFormula) {
  const auto attention = make("linear", torch::kDouble, kCausal);
  for (const int64_t n : {1, 5, 63, 64, 65, 200}) {
    for (const bool scattered : {false, true}) {
      Inputs in = make_inputs({n, n / 2 + 1, 1, 0}, n);
      if (scattered) in.mask = scattered_mask(n);
      const torch::Tensor weight = make_inputs({0, 0, 0, 0}, n, torch::kDouble, 2, 4, 8).q;
      std::vector<torch::Tensor> results[2];
      for (int formula = 0; formula < 2; ++formula) {
        Inputs leaf = in;
        for (torch::Tensor* t : {&leaf.q, &leaf.k, &leaf.v}) *t = t->detach().requires_grad_();
        const torch::Tensor out = formula == 1 ? linear_formula(leaf) : attend(*attention, leaf);
        out.backward(weight);
        results[formula] = {out, leaf.q.grad(), leaf.k.grad(), leaf.v.grad()};
      }
      for (size_t i = 0; i < 4; ++i)
        EXPECT_LT(difference(results[0][i], results[1][i]), 1e-12) << "N = " << n << ", " << i;
    }
  }
}

TEST(Causal, FormsThatReadLaterPositionsAreRefused) {
  for (const char* spec : {"sparse[cls=open]", "linear[normalise=false]", "nystrom", "fnet"})
    EXPECT_THROW(make(spec, torch::kDouble, kCausal), UsageError) << spec;
}

TEST(Causal, StandardCountsHalfOfThePairs) {
  EXPECT_EQ(make("standard", torch::kDouble, kCausal)->flops(3, 37), 4 * 3 * 2 * (37 * 38 / 2) * 4);
}

}  // namespace
}  // namespace lra
