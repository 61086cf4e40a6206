// cosFormer against its formula with every matrix written out.
#include <numbers>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

// One sample, its real tokens alone: q, k, v [H,M,d].
torch::Tensor cosformer_formula(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v) {
  const int64_t count = q.size(1);
  const torch::Tensor position = torch::arange(1, count + 1, torch::kDouble);
  const torch::Tensor distance = position.unsqueeze(1) - position.unsqueeze(0);
  const torch::Tensor a =
      torch::matmul(torch::relu(q), torch::relu(k).mT()) *
      torch::cos(std::numbers::pi / 2 * distance / static_cast<double>(count));  // [H,M,M]
  return torch::matmul(a, v) / a.sum(-1, /*keepdim=*/true).clamp_min(1e-6);
}

TEST(Cosformer, EqualsTheFormulaOnRealTokensAlone) {
  const std::vector<int64_t> lengths = {53, 30, 3, 1};
  const Inputs in = make_inputs(lengths, 53);
  const torch::Tensor out = attend(*make("cosformer"), in);
  for (int64_t b = 0; b < 4; ++b) {
    const int64_t real = lengths[static_cast<size_t>(b)];
    const auto one = [&](const torch::Tensor& t) { return t[b].narrow(1, 0, real); };
    EXPECT_LT(difference(one(out), cosformer_formula(one(in.q), one(in.k), one(in.v))), 1e-13)
        << real << " real tokens";
  }
}

TEST(Cosformer, CountsRealTokensWhereverPaddingStands) {
  Inputs in = make_inputs({40}, 40);
  in.mask = torch::arange(40).remainder(3).ne(0).unsqueeze(0);
  const torch::Tensor out = attend(*make("cosformer"), in);
  const auto real = [&](const torch::Tensor& t) {
    return t[0].index_select(1, in.mask[0].nonzero().squeeze(1));
  };
  EXPECT_LT(difference(real(out), cosformer_formula(real(in.q), real(in.k), real(in.v))), 1e-13);
}

TEST(Cosformer, QueryWithoutPositiveEntryIsZero) {
  Inputs in = make_inputs({12}, 12);
  in.q = in.q.abs().neg().requires_grad_();
  const torch::Tensor out = attend(*make("cosformer"), in);
  EXPECT_EQ(out.count_nonzero().item<int64_t>(), 0);
  out.sum().backward();
  EXPECT_TRUE(finite(in.q.grad()));
}

// bfloat16 does not count beyond 256; its sines and cosines are fine.
TEST(Cosformer, PositionsAreCountedExactlyInBfloat16) {
  const int64_t n = 4096;
  Inputs in = make_inputs({n}, n);
  in.q = torch::ones_like(in.q);
  in.k = torch::zeros_like(in.k);
  in.v = torch::zeros_like(in.v);
  // Two keys, the first and the last, so that the output is the share of the last in the weights.
  in.k.select(2, 0).fill_(1);
  in.k.select(2, n - 1).fill_(1);
  in.v.select(2, n - 1).fill_(1);
  const auto run = [&](torch::ScalarType type) {
    return attend(*make("cosformer", type), {in.q.to(type), in.k.to(type), in.v.to(type), in.mask});
  };
  EXPECT_LT(difference(run(torch::kBFloat16), run(torch::kDouble)), 1e-2);
}

}  // namespace
}  // namespace lra
