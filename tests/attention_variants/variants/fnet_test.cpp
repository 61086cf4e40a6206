// FNet against the Fourier matrices written out, and the contract through forward(), its only form.
#include <cmath>
#include <numbers>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

struct Tokens {
  torch::Tensor x;     // [B,N,D]
  torch::Tensor mask;  // [B,N]
};

Tokens make_tokens(const std::vector<int64_t>& lengths, int64_t length, int64_t width = 8,
                   uint64_t seed = 1) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return {torch::randn({static_cast<int64_t>(lengths.size()), length, width}, generator,
                       torch::kDouble),
          length_mask(lengths, length)};
}

std::shared_ptr<Attention> fnet(int64_t width = 8) {
  return make("fnet", torch::kDouble,
              {.width = width, .heads = 1, .head_dim = width, .max_length = 64, .seed = 0});
}

// cos and sin of 2π jk / n: F = C - iS.
std::pair<torch::Tensor, torch::Tensor> fourier(int64_t n) {
  const torch::Tensor i = torch::arange(n, torch::kDouble);
  const torch::Tensor angle =
      torch::outer(i, i).remainder(n) * (2 * std::numbers::pi / static_cast<double>(n));
  return {angle.cos(), angle.sin()};
}

torch::Tensor fnet_formula(const Tokens& in) {
  const torch::Tensor real = in.mask.unsqueeze(-1);
  const auto [cn, sn] = fourier(in.x.size(1));
  const auto [cd, sd] = fourier(in.x.size(2));
  const torch::Tensor x = torch::where(real, in.x, torch::zeros_like(in.x));
  return (cn.matmul(x).matmul(cd) - sn.matmul(x).matmul(sd)) * real;
}

TEST(FNet, EqualsTheFormulaForAnyLengthAndWidth) {
  for (const int64_t n : {1, 2, 3, 13, 32, 48}) {
    for (const int64_t width : {1, 2, 5, 8}) {
      Tokens in = make_tokens({n, 0, 1, (n + 1) / 2}, n, width);
      in.mask[3] = torch::arange(n).remainder(3).eq(0);  // padding anywhere
      const torch::Tensor out = fnet(width)->forward(in.x, in.mask);
      ASSERT_EQ(out.sizes(), in.x.sizes());
      EXPECT_LT(difference(out, fnet_formula(in)), 1e-13) << "N = " << n << ", D = " << width;
    }
  }
}

TEST(FNet, GradientsAreThoseOfTheFormula) {
  const Tokens in = make_tokens({13, 6, 0}, 13);
  const torch::Tensor weight = make_tokens({13, 13, 13}, 13, 8, /*seed=*/2).x;
  torch::Tensor gradient[2];
  for (int i = 0; i < 2; ++i) {
    const Tokens leaf{in.x.clone().requires_grad_(), in.mask};
    const torch::Tensor out = i == 0 ? fnet()->forward(leaf.x, leaf.mask) : fnet_formula(leaf);
    gradient[i] = torch::autograd::grad({(out * weight).sum()}, {leaf.x}).front();
  }
  EXPECT_LT(difference(gradient[0], gradient[1]), 1e-13);
}

TEST(FNet, PaddingAndOtherSamplesChangeNothing) {
  const Tokens in = make_tokens({41, 30, 1, 0}, 41);
  const torch::Tensor expected = fnet()->forward(in.x, in.mask);
  const torch::Tensor padded = in.mask.logical_not().unsqueeze(-1);
  EXPECT_EQ((expected * padded).count_nonzero().item<int64_t>(), 0);
  for (const double value : {1e30, HUGE_VAL, std::nan("")}) {
    const torch::Tensor x = in.x.masked_fill(padded, value).requires_grad_();
    const torch::Tensor out = fnet()->forward(x, in.mask);
    EXPECT_TRUE(torch::equal(out, expected)) << value;
    out.sum().backward();
    EXPECT_TRUE(finite(x.grad())) << value;
    EXPECT_EQ((x.grad() * padded).count_nonzero().item<int64_t>(), 0) << value;
  }
  for (int64_t b = 0; b < 4; ++b) {
    const torch::Tensor alone = fnet()->forward(in.x.narrow(0, b, 1), in.mask.narrow(0, b, 1));
    EXPECT_LT(difference(alone, expected.narrow(0, b, 1)), 1e-12);
  }
}

TEST(FNet, TypesAgree) {
  const Tokens in = make_tokens({37, 20}, 37);
  const torch::Tensor expected = fnet()->forward(in.x, in.mask);
  for (const auto& [type, tolerance] : {std::pair{torch::kFloat, 1e-6}, {torch::kBFloat16, 2e-2}}) {
    const torch::Tensor out = fnet()->forward(in.x.to(type), in.mask);
    EXPECT_EQ(out.scalar_type(), type);
    EXPECT_LT(difference(out, expected), tolerance) << type;
  }
}

TEST(FNet, NonContiguousInputs) {
  const Tokens in = make_tokens({37, 20}, 37);
  const torch::Tensor x = in.x.transpose(1, 2).contiguous().transpose(1, 2);
  const torch::Tensor mask = torch::stack({in.mask, in.mask}, -1).select(-1, 1);
  EXPECT_LT(difference(fnet()->forward(x, mask), fnet()->forward(in.x, in.mask)), 1e-13);
}

TEST(FNet, HasNoParametersNorQueriesKeysAndValues) {
  EXPECT_TRUE(fnet()->parameters().empty());
  EXPECT_EQ(fnet()->options(), json::object());
  const Inputs in = make_inputs({8}, 8);
  EXPECT_THROW(attend(*fnet(), in), Error);
}

TEST(FNet, RefusesWrongShapes) {
  const Tokens in = make_tokens({8, 8}, 8);
  EXPECT_THROW(fnet(9)->forward(in.x, in.mask), Error);
  EXPECT_THROW(fnet()->forward(in.x[0], in.mask), Error);
  EXPECT_THROW(fnet()->forward(in.x.to(torch::kLong), in.mask), Error);
  EXPECT_THROW(fnet()->forward(in.x, in.mask.narrow(1, 0, 7)), Error);
  EXPECT_THROW(fnet()->forward(in.x, in.mask.to(torch::kFloat)), Error);
}

TEST(FNet, CountsTheTransforms) {
  // N = 4, D = 8: 4 real transforms of length 8 (5·8·3/2 each), then 5 complex ones of length 4
  // (5·4·2 each), for each of 3 samples.
  EXPECT_EQ(fnet()->flops(3, 4), 3 * (4 * 60 + 5 * 40));
}

TEST(FNet, MemoryGrowsLinearly) {
  const auto peak_of = [](int64_t n, bool training) {
    const torch::Tensor mask = length_mask({n, n / 2}, n),
                        x = torch::randn({2, n, 8}).set_requires_grad(training);
    return peak_bytes([&] {
      const torch::AutoGradMode grad(training);
      const torch::Tensor out = fnet()->forward(x, mask);
      if (training) out.backward(torch::ones_like(out));
    });
  };
  for (const bool training : {false, true}) {
    const int64_t small = peak_of(8192, training), large = peak_of(16384, training);
    EXPECT_GT(small, 0);
    EXPECT_LT(static_cast<double>(large), 2.2 * static_cast<double>(small));
  }
}

}  // namespace
}  // namespace lra
