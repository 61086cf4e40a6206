// Skyformer against its formula with every matrix written out, its landmarks, its limit, and what
// it holds in memory.
#include <cmath>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

torch::Tensor gaussian(const torch::Tensor& x, const torch::Tensor& y) {  // [..,M,d], [..,N,d]
  return torch::exp(-0.5 * (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1));
}

// One sample, its real tokens alone: q, k, v [H,L,d]; landmarks are rows of [q;k].
torch::Tensor formula(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                      const torch::Tensor& landmarks) {
  const double scale = std::pow(static_cast<double>(q.size(-1)), -0.25);
  const torch::Tensor x = scale * torch::cat({q, k}, 1), xs = x.index_select(1, landmarks);
  const torch::Tensor c = gaussian(x, xs), eye = torch::eye(xs.size(1), torch::kDouble);
  const torch::Tensor s = gaussian(xs, xs) + 0.1 * eye;
  const torch::Tensor root = torch::diag_embed(s.sum(-1).pow(-0.5));
  const torch::Tensor a = root.matmul(s).matmul(root);
  torch::Tensor z = a.mT() / (a.abs().sum(-2).amax(-1) * a.abs().sum(-1).amax(-1)).view({-1, 1, 1});
  for (int i = 0; i < 6; ++i) {
    const torch::Tensor az = a.matmul(z);
    z = 0.25 * z.matmul(13 * eye - az.matmul(15 * eye - az.matmul(7 * eye - az)));
  }
  const int64_t n = q.size(1);
  return c.narrow(1, 0, n).matmul(root).matmul(z).matmul(root).matmul(
      c.narrow(1, n, n).mT().matmul(v));
}

std::shared_ptr<Attention> skyformer(int64_t m, uint64_t seed = 3) {
  return make("skyformer[num_features=" + std::to_string(m) + "]", torch::kDouble,
              {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = seed});
}

// The landmarks of real positions `real` of N: the draws of the seed, the first half of them among
// queries. Both as rows of the whole [q;k], and as rows of that of the real tokens alone.
std::pair<std::vector<int64_t>, std::vector<int64_t>> drawn(const std::vector<int64_t>& real,
                                                            int64_t n, int64_t m, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor draw = torch::rand({m}, generator, torch::kDouble);
  const auto count = static_cast<int64_t>(real.size());
  std::pair<std::vector<int64_t>, std::vector<int64_t>> rows;
  for (int64_t i = 0; i < m; ++i) {
    const auto rank = static_cast<int64_t>(draw[i].item<double>() * static_cast<double>(count));
    rows.first.push_back(real[static_cast<size_t>(rank)] + (i < m / 2 ? 0 : n));
    rows.second.push_back(rank + (i < m / 2 ? 0 : count));
  }
  return rows;
}

std::vector<int64_t> real_positions(const torch::Tensor& mask) {
  const torch::Tensor index = mask.nonzero().squeeze(1);
  return {index.data_ptr<int64_t>(), index.data_ptr<int64_t>() + index.numel()};
}

TEST(Skyformer, EqualsTheFormulaOnRealTokensAlone) {
  for (const int64_t n : {1, 2, 53}) {
    for (const int64_t m : {1, 8, 13, 128}) {
      Inputs in = make_inputs({n, (n + 1) / 2, 1, n}, n);
      in.mask[3] = torch::arange(n).remainder(4).eq(n > 2 ? 2 : 0);  // padding before and between
      const torch::Tensor out = attend(*skyformer(m), in);
      for (int64_t b = 0; b < 4; ++b) {
        const std::vector<int64_t> real = real_positions(in.mask[b]);
        const torch::Tensor index = torch::tensor(real);
        const auto one = [&](const torch::Tensor& t) { return t[b].index_select(1, index); };
        const torch::Tensor expected =
            formula(one(in.q), one(in.k), one(in.v), torch::tensor(drawn(real, n, m, 3).second));
        EXPECT_LT(difference(one(out), expected), 1e-10)
            << "N = " << n << ", m = " << m << ", " << real.size() << " real tokens";
      }
    }
  }
}

TEST(Skyformer, GradientsAreThoseOfTheFormula) {
  const int64_t n = 23, real = 17;
  Inputs in = make_inputs({real}, n);
  std::vector<torch::Tensor> leaves = {in.q, in.k, in.v};
  for (torch::Tensor& leaf : leaves) leaf.requires_grad_();
  const auto one = [&](const torch::Tensor& t) { return t[0].narrow(1, 0, real); };
  const torch::Tensor weight = one(make_inputs({n}, n, torch::kDouble, 2, 4, /*seed=*/2).q);
  const auto gradients = [&](const torch::Tensor& out) {
    return torch::autograd::grad({(out * weight).sum()}, leaves);
  };
  const torch::Tensor landmarks =
      torch::tensor(drawn(real_positions(in.mask[0]), n, /*m=*/8, /*seed=*/3).second);
  const auto ours = gradients(one(attend(*skyformer(8), in))),
             theirs = gradients(formula(one(in.q), one(in.k), one(in.v), landmarks));
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(difference(ours[i], theirs[i]), 1e-11) << i;
}

TEST(Skyformer, AGivenTableStandsForTheDraws) {
  Inputs in = make_inputs({40, 40}, 40);
  in.mask[1] = torch::arange(40).remainder(3).eq(1);
  std::vector<torch::Tensor> rows;
  for (int64_t b = 0; b < 2; ++b)
    rows.push_back(torch::tensor(drawn(real_positions(in.mask[b]), 40, 8, /*seed=*/5).first));
  const torch::Tensor table = torch::stack(rows);
  const auto attention = skyformer(8, /*seed=*/3);
  const torch::Tensor before = attend(*attention, in), expected = attend(*skyformer(8, 5), in);
  attention->set_table("landmarks", table);
  EXPECT_TRUE(torch::equal(attend(*attention, in), expected));
  EXPECT_GT(difference(before, expected), 1e-3);
  EXPECT_EQ(attention->tables(), std::vector<std::string>{"landmarks"});
}

TEST(Skyformer, RefusesATableThatDoesNotFit) {
  const Inputs in = make_inputs({10, 10}, 10);
  const auto attention = skyformer(4);
  EXPECT_THROW(attention->set_table("landmark", torch::zeros({2, 4}, torch::kLong)), Error);
  for (const torch::Tensor& table :
       {torch::zeros({2, 5}, torch::kLong), torch::zeros({1, 4}, torch::kLong),
        torch::zeros({2, 4}), torch::full({2, 4}, 20, torch::kLong),
        torch::full({2, 4}, -1, torch::kLong)}) {
    attention->set_table("landmarks", table);
    EXPECT_THROW(attend(*attention, in), Error) << table.sizes();
  }
}

TEST(Skyformer, LandmarksDoNotDependOnTheLengthPaddedTo) {
  const Inputs in = make_inputs({20}, 50);
  Inputs cut = in;
  for (torch::Tensor* t : {&cut.q, &cut.k, &cut.v}) *t = t->narrow(2, 0, 20);
  cut.mask = in.mask.narrow(1, 0, 20);
  EXPECT_LT(difference(attend(*skyformer(8), in).narrow(2, 0, 20), attend(*skyformer(8), cut)),
            1e-13);
}

TEST(Skyformer, ApproachesGaussianKernelAttentionWithLandmarks) {
  // Of inputs of unit norm or so, where few landmarks say much. The ridge keeps an error.
  const int64_t n = 64;
  Inputs in = make_inputs({n, n, n, n}, n);
  in.q = in.q * 0.5;
  in.k = in.k * 0.5;
  const double scale = std::pow(4.0, -0.25);
  const torch::Tensor exact = gaussian(scale * in.q, scale * in.k).matmul(in.v);
  double last = 1e9;
  for (const int64_t m : {2, 8, 32, 128}) {
    const double error = ((attend(*skyformer(m), in) - exact).norm() / exact.norm()).item<double>();
    EXPECT_LT(error, last) << m << " landmarks";
    last = error;
  }
  EXPECT_LT(last, 0.05);
}

TEST(Skyformer, LargeNormsStayFinite) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    for (const double size : {1e2, 1e5, 1e9}) {
      const auto attention = make("skyformer[num_features=8]", type);
      Inputs in = make_inputs({41, 30, 0}, 41, type);
      in.q = (in.q * size).requires_grad_();
      in.k = (in.k * size).requires_grad_();
      in.v.requires_grad_();
      const torch::Tensor out = attend(*attention, in);
      EXPECT_TRUE(finite(out)) << type << ", " << size;
      out.sum().backward();
      EXPECT_TRUE(finite(in.q.grad()) && finite(in.k.grad()) && finite(in.v.grad()))
          << type << ", " << size;
    }
  }
}

TEST(Skyformer, NothingAtPaddedPositionsMatters) {
  const Inputs in = make_inputs({37, 20, 0}, 37);
  const torch::Tensor expected = attend(*skyformer(8), in);
  const torch::Tensor padded = in.mask.logical_not().unsqueeze(1).unsqueeze(-1);
  for (const double value : {1e30, HUGE_VAL, std::nan("")}) {
    Inputs other = in;
    for (torch::Tensor* t : {&other.q, &other.k, &other.v})
      *t = t->masked_fill(padded, value).requires_grad_();
    const torch::Tensor out = attend(*skyformer(8), other);
    EXPECT_TRUE(torch::equal(out, expected)) << value;
    out.sum().backward();
    for (const torch::Tensor& t : {other.q, other.k, other.v}) {
      EXPECT_TRUE(finite(t.grad())) << value;
      EXPECT_EQ((t.grad() * padded).count_nonzero().item<int64_t>(), 0) << value;
    }
  }
}

TEST(Skyformer, CountsItsProducts) {
  // N = 10, m = 6, d = 4 (6 with the norms' columns): three kernels and the norms, C_Kᵀ V and C_Q
  // (..), four products an iteration, Z (..); 2 heads, 3 samples.
  const int64_t kernels = 2 * (10 + 10 + 6) * 6 * 6 + 2 * 20 * 4, outer = 2 * (2 * 10 * 6 * 4),
                inner = 6 * 4 * (2 * 6 * 6 * 6) + 2 * 6 * 6 * 4;
  EXPECT_EQ(skyformer(6)->flops(3, 10), 3 * 2 * (kernels + outer + inner));
}

int64_t skyformer_peak(int64_t n, bool training) {
  const auto attention = make("skyformer[num_features=16]", torch::kFloat,
                              {.width = 16, .heads = 2, .head_dim = 8, .max_length = n, .seed = 0});
  Inputs in = make_inputs({n, n / 2}, n, torch::kFloat, 2, 8);
  for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(training);
  const torch::Tensor gradient = torch::ones_like(in.q);
  return peak_bytes([&] {
    const torch::AutoGradMode grad(training);
    torch::Tensor out = attend(*attention, in);
    if (training) out.backward(gradient);
  });
}

TEST(Skyformer, MemoryGrowsLinearly) {
  for (const bool training : {false, true}) {
    const int64_t small = skyformer_peak(8192, training), large = skyformer_peak(16384, training);
    EXPECT_GT(small, 0);
    EXPECT_LT(static_cast<double>(large), 2.2 * static_cast<double>(small))
        << (training ? "training" : "inference");
  }
}

}  // namespace
}  // namespace lra
