// Nyström attention against its formula with every matrix written out, its limits, its convolution,
// and what it holds in memory.
#include <cmath>

#include "attention_variants/ops/reference/depthwise_conv.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using Segment = std::vector<int64_t>;  // positions that a landmark averages

std::vector<Segment> even_segments(int64_t n, int64_t m) {  // ⌊N/m⌋ first, then one more
  std::vector<Segment> segments;
  int64_t next = 0;
  for (int64_t i = 0; i < m; ++i) {
    Segment s;
    for (int64_t size = n / m + (i >= m - n % m ? 1 : 0); size > 0; --size) s.push_back(next++);
    segments.push_back(s);
  }
  return segments;
}

std::vector<Segment> adaptive_segments(int64_t n, int64_t m) {  // ⌊iN/m⌋..⌈(i+1)N/m⌉
  std::vector<Segment> segments;
  for (int64_t i = 0; i < m; ++i) {
    Segment s;
    for (int64_t p = i * n / m; p < ((i + 1) * n + m - 1) / m; ++p) s.push_back(p);
    segments.push_back(s);
  }
  return segments;
}

// One sample, its real tokens alone: q, k, v [H,L,d] are its first L positions; segments reach
// beyond them, and those without a real token are left out.
torch::Tensor nystrom_formula(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const std::vector<Segment>& segments) {
  const int64_t real = q.size(1);
  std::vector<torch::Tensor> q_means, k_means;
  for (const Segment& s : segments) {
    std::vector<int64_t> kept;
    for (const int64_t p : s) {
      if (p < real) kept.push_back(p);
    }
    if (kept.empty()) continue;
    const torch::Tensor index = torch::tensor(kept);
    q_means.push_back(q.index_select(1, index).mean(1));
    k_means.push_back(k.index_select(1, index).mean(1));
  }
  const torch::Tensor ql = torch::stack(q_means, 1), kl = torch::stack(k_means, 1);
  const double s = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const torch::Tensor f = torch::softmax(s * q.matmul(kl.mT()), -1),
                      a = torch::softmax(s * ql.matmul(kl.mT()), -1),
                      b = torch::softmax(s * ql.matmul(k.mT()), -1),
                      eye = torch::eye(a.size(-1), torch::kDouble);
  torch::Tensor z = a.mT() / a.sum(-2).amax(-1).view({-1, 1, 1});
  for (int i = 0; i < 6; ++i) {
    const torch::Tensor az = a.matmul(z);
    z = 0.25 * z.matmul(13 * eye - az.matmul(15 * eye - az.matmul(7 * eye - az)));
  }
  return f.matmul(z).matmul(b.matmul(v));
}

TEST(Nystrom, EqualsTheFormulaOnRealTokensAlone) {
  const std::vector<int64_t> lengths = {53, 30, 3, 1};
  const Inputs in = make_inputs(lengths, 53);
  for (const auto& [name, segments] : {std::pair{"segment_means", even_segments(53, 8)},
                                       {"adaptive_pool", adaptive_segments(53, 8)}}) {
    const torch::Tensor out = attend(
        *make(std::string("nystrom[num_landmarks=8,conv_kernel_size=0,landmarks=") + name + "]"),
        in);
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t real = lengths[static_cast<size_t>(b)];
      const auto one = [&](const torch::Tensor& t) { return t[b].narrow(1, 0, real); };
      EXPECT_LT(difference(one(out), nystrom_formula(one(in.q), one(in.k), one(in.v), segments)),
                1e-12)
          << name << ", " << real << " real tokens";
    }
  }
}

TEST(Nystrom, StridedAndRandomLandmarksAreRealTokens) {
  // As many landmarks as real tokens: every one is a landmark, wherever padding stands, and the
  // result is softmax itself.
  Inputs in = make_inputs({40, 40}, 40);
  in.mask =
      torch::arange(40).remainder(5).eq(1).unsqueeze(0).repeat({2, 1});  // 8 real tokens, scattered
  const torch::Tensor expected = attend(*make("standard"), in);
  for (const char* landmarks : {"strided", "random"}) {
    const std::string spec =
        std::string("nystrom[num_landmarks=8,conv_kernel_size=0,pinv=exact,landmarks=") +
        landmarks + "]";
    EXPECT_LT(difference(attend(*make(spec), in), expected), 1e-8) << landmarks;
  }
}

TEST(Nystrom, RandomLandmarksComeFromTheSeed) {
  const Inputs in = make_inputs({60}, 60);
  const auto with_seed = [&](uint64_t seed) {
    return attend(
        *make("nystrom[num_landmarks=6,conv_kernel_size=0,landmarks=random]", torch::kDouble,
              {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = seed}),
        in);
  };
  EXPECT_TRUE(torch::equal(with_seed(1), with_seed(1)));
  EXPECT_GT(difference(with_seed(1), with_seed(2)), 1e-3);
}

TEST(Nystrom, ErrorFallsWithLandmarksAndEndsExact) {
  const Inputs in = make_inputs({256, 256, 256, 256}, 256, torch::kDouble, 2, 32);
  const auto context =
      AttentionContext{.width = 64, .heads = 2, .head_dim = 32, .max_length = 256, .seed = 0};
  const torch::Tensor exact = attend(*make("standard", torch::kDouble, context), in);
  double last = 1e9;
  for (const int64_t m : {4, 8, 16, 32, 64, 128, 256}) {
    const auto attention =
        make("nystrom[conv_kernel_size=0,num_landmarks=" + std::to_string(m) + "]", torch::kDouble,
             context);
    const double error = ((attend(*attention, in) - exact).norm() / exact.norm()).item<double>();
    EXPECT_LT(error, last) << m << " landmarks";
    last = error;
  }
  EXPECT_LT(last, 1e-12);
}

TEST(Nystrom, IterationConvergesToTheExactInverse) {
  const Inputs in = make_inputs({60, 33}, 60);
  const torch::Tensor exact = attend(*make("nystrom[num_landmarks=4,pinv=exact]"), in);
  double last = 1e9;
  for (const char* iterations : {"2", "6", "12"}) {
    const auto attention =
        make(std::string("nystrom[num_landmarks=4,pinv_iterations=") + iterations + "]");
    const double error = difference(attend(*attention, in), exact);
    EXPECT_LT(error, last) << iterations;
    last = error;
  }
  EXPECT_LT(difference(attend(*make("nystrom[num_landmarks=4,pinv_iterations=40]"), in), exact),
            1e-8);
}

TEST(Nystrom, StateIsTheConvolutionsWeight) {
  const auto weight = make("nystrom")->named_parameters()["conv.weight"];
  EXPECT_EQ(weight.sizes(), (std::vector<int64_t>{2, 1, 35, 1}));
  EXPECT_EQ(make("nystrom[conv_kernel_size=0]")->named_parameters().find("conv.weight"), nullptr);
}

TEST(DepthwiseConv, EqualsLibTorchsConvolution) {
  for (const int64_t kernel : {1, 2, 3, 4, 35, 64, 65, 100}) {
    for (const int64_t n : {1, 5, 64, 130}) {
      const Inputs in = make_inputs({n, n, n}, n);
      torch::Tensor weight = torch::randn({2, 1, kernel, 1}, torch::kDouble);
      std::vector<torch::Tensor> results[2];
      for (int i = 0; i < 2; ++i) {
        const torch::Tensor x = in.v.detach().requires_grad_(),
                            w = weight.detach().requires_grad_();
        const torch::Tensor out = i == 0
                                      ? ops::reference::depthwise_conv(x, w)
                                      : at::conv2d_symint(x, w, {}, c10::SymIntArrayRef({1, 1}),
                                                          "same", c10::SymIntArrayRef({1, 1}), 2);
        out.backward(in.q);
        results[i] = {out, x.grad(), w.grad()};
      }
      for (size_t j = 0; j < 3; ++j) {
        EXPECT_LT(difference(results[0][j], results[1][j]), 1e-13)
            << "K = " << kernel << ", N = " << n << ", " << j;
      }
    }
  }
}

// d small and m large, so that N x m would stand out: it is 32 times q.
int64_t nystrom_peak(int64_t n, bool training) {
  return attend_peak("nystrom[num_landmarks=256]",
                     {.width = 16, .heads = 2, .head_dim = 8, .max_length = n, .seed = 0}, 1,
                     training);
}

// Blocks of 64 positions: samples end well within one.
TEST(Nystrom, NanStaysInItsSample) {
  for (const int64_t n : {5, 20}) expect_nan_stays_in_its_sample("nystrom[num_landmarks=8]", n);
}

TEST(Nystrom, HoldsNoMatrixOverPositions) {
  // Twice the positions: what grows with N is what may hold an N x m product; m x m products do not
  // grow.
  const int64_t n = 16384, product = 2 * n * 256 * 4;
  for (const bool training : {false, true}) {
    const int64_t growth = nystrom_peak(2 * n, training) - nystrom_peak(n, training);
    EXPECT_GT(growth, 0);
    EXPECT_LT(growth, product / 2) << (training ? "training" : "inference");
  }
}

TEST(Nystrom, AnalyticBytesAreWhatTheAllocatorSees) {
  const int64_t n = 4096;
  const auto attention =
      make("nystrom", torch::kFloat,
           {.width = 64, .heads = 2, .head_dim = 32, .max_length = n, .seed = 0});
  const Inputs in = make_inputs({n, n / 2}, n, torch::kFloat, 2, 32);
  const int64_t peak = peak_bytes([&] {
    const torch::NoGradGuard no_grad;
    attend(*attention, in);
  });
  EXPECT_NEAR(
      static_cast<double>(peak) / static_cast<double>(attention->analytic_bytes(2, n, 4, false)), 1,
      0.3);
}

// The convolution lays out whole blocks of positions, more than so short a sample has.
TEST(Nystrom, AnalyticBytesHoldForFewTokensAndAConvolution) {
  for (const int64_t n : {64, 40}) {
    for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
      const auto attention = make("nystrom", torch::kFloat,
                                  {.width = 128,
                                   .heads = 4,
                                   .head_dim = 32,
                                   .max_length = n,
                                   .seed = 0,
                                   .kernels = kernels});
      const Inputs in =
          make_inputs(std::vector<int64_t>(64, n), n, torch::kFloat, /*heads=*/4, /*width=*/32);
      const int64_t peak = peak_bytes([&] {
        const torch::NoGradGuard no_grad;
        attend(*attention, in);
      });
      EXPECT_NEAR(static_cast<double>(attention->analytic_bytes(64, n, 4, false)) /
                      static_cast<double>(peak),
                  1, 0.1)
          << n << " tokens, " << (kernels == Kernels::fused ? "fused" : "reference");
    }
  }
}

}  // namespace
}  // namespace lra
