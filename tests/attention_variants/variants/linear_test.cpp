// Linear attention against its formula with every matrix written out, and where its features are
// small.
#include <cmath>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

// One sample, its real tokens alone: q, k, v [H,L,d].
torch::Tensor kernel(const torch::Tensor& q, const torch::Tensor& k) {  // [H,L,L]
  return torch::matmul(torch::elu(q) + 1, (torch::elu(k) + 1).mT());
}

void expect_formula(
    const std::string& spec,
    const std::function<torch::Tensor(torch::Tensor, torch::Tensor, torch::Tensor)>& formula) {
  const std::vector<int64_t> lengths = {53, 30, 3, 1};
  const Inputs in = make_inputs(lengths, 53);
  const torch::Tensor out = attend(*make(spec), in);
  for (int64_t b = 0; b < 4; ++b) {
    const int64_t real = lengths[static_cast<size_t>(b)];
    const auto one = [&](const torch::Tensor& t) { return t[b].narrow(1, 0, real); };
    EXPECT_LT(difference(one(out), formula(one(in.q), one(in.k), one(in.v))), 1e-13)
        << spec << ", " << real << " real tokens";
  }
}

TEST(Linear, EqualsTheFormulaOnRealTokensAlone) {
  expect_formula("linear", [](const auto& q, const auto& k, const auto& v) {
    const torch::Tensor a = kernel(q, k);
    return torch::matmul(a / a.sum(-1, /*keepdim=*/true), v);
  });
}

TEST(Linear, WithoutNormalisationDividesByTheRootOfThePaddedLength) {
  expect_formula("linear[normalise=false]", [](const auto& q, const auto& k, const auto& v) {
    return torch::matmul(kernel(q, k), v) / std::sqrt(53.0);
  });
}

// elu(-20) + 1 is 2e-9; elu(-20) itself is -1 in float32 and bfloat16, which would leave 0 / 0.
TEST(Linear, SmallFeaturesKeepTheirValue) {
  for (const auto& [type, tolerance] : {std::pair{torch::kFloat, 1e-6}, {torch::kBFloat16, 1e-2}}) {
    Inputs in = make_inputs({40}, 40, type);
    in.q.fill_(-20);
    in.k.fill_(-20);  // all weights are equal
    const torch::Tensor mean =
        in.v.to(torch::kDouble).mean(2, /*keepdim=*/true).expand({-1, -1, 40, -1});
    EXPECT_LT(difference(attend(*make("linear", type), in), mean), tolerance) << type;
  }
}

TEST(Linear, FeaturesThatUnderflowStayFinite) {
  for (const char* spec : {"linear", "linear[normalise=false]"}) {
    for (const double size : {-50.0, -90.0, -1e4}) {
      Inputs in = make_inputs({40, 0}, 40, torch::kFloat);
      in.q = torch::full_like(in.q, size).requires_grad_();
      in.k = torch::full_like(in.k, size).requires_grad_();
      in.v.requires_grad_();
      const torch::Tensor out = attend(*make(spec, torch::kFloat), in);
      out.sum().backward();
      EXPECT_TRUE(finite(out)) << spec << " " << size;
      EXPECT_TRUE(finite(in.q.grad()) && finite(in.k.grad()) && finite(in.v.grad()))
          << spec << " " << size;
    }
  }
}

}  // namespace
}  // namespace lra
