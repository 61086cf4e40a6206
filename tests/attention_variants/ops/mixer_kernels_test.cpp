// The kernels under mixers of whole sequences against LibTorch's operators and against their sums.
#include "attention_variants/ops/diagonal_scan.h"
#include "attention_variants/ops/gates.h"
#include "attention_variants/ops/long_convolution.h"
#include "attention_variants/ops/softmax_attention.h"
#include "tests/attention_variants/testing.h"

namespace lra::ops {
namespace {

using Tensors = std::vector<torch::Tensor>;

// The result, and the gradients towards `given`, of a call in `type`.
template <class Call>
Tensors results(const Tensors& given, const torch::Tensor& gradient, torch::ScalarType type,
                const Call& call) {
  Tensors leaves;
  for (const torch::Tensor& t : given) leaves.push_back(t.to(type).detach().requires_grad_());
  const torch::Tensor out = call(leaves);
  // Each is defined, that of a transition too where one position does not read it.
  Tensors all = torch::autograd::grad({out}, leaves, {gradient.to(type)});
  all.insert(all.begin(), out.detach());
  return all;
}

template <class Call>
void expect_kernel_as_exact(const Tensors& given, const torch::Tensor& gradient, const Call& call) {
  const auto by = [&](Kernels kernels) {
    return [&, kernels](const Tensors& leaves) { return call(kernels, leaves); };
  };
  expect_as_exact(results(given, gradient, torch::kFloat, by(Kernels::fused)),
                  results(given, gradient, torch::kFloat, by(Kernels::reference)),
                  results(given, gradient, torch::kDouble, by(Kernels::reference)), 2e-6);
}

struct ConvolutionCase {
  int64_t batch, length, width, taps, ahead;
};

torch::Tensor double_sum(const torch::Tensor& x, const torch::Tensor& taps, int64_t ahead) {
  torch::Tensor out = torch::zeros_like(x);
  for (int64_t t = 0; t < x.size(1); ++t) {
    for (int64_t j = 0; j < taps.size(1); ++j) {
      const int64_t from = t + ahead - j;
      if (from >= 0 && from < x.size(1)) out.select(1, t) += taps.select(1, j) * x.select(1, from);
    }
  }
  return out;
}

// Few taps are summed. Of more there are transforms of 80 (5 · 16), 96, 112, 128, 160, 192, 224,
// 256, 384 and 768 numbers, with and without a last stage of 2; taps also reach past both ends.
TEST(ConvolutionParity, OfFewTapsAndMany) {
  torch::manual_seed(1);
  for (const auto& [batch, length, width, taps, ahead] : {ConvolutionCase{2, 101, 24, 31, 15},
                                                          {3, 300, 37, 5, 0},
                                                          {1, 20, 16, 64, 40},
                                                          {2, 1, 7, 3, 1},
                                                          {2, 600, 5, 128, 127},
                                                          {1, 33, 3, 200, 10},
                                                          {2, 30, 4, 59, 29},
                                                          {1, 70, 20, 250, 110},
                                                          {1, 95, 6, 189, 94},
                                                          {2, 110, 3, 219, 109},
                                                          {1, 120, 9, 239, 119},
                                                          {5, 180, 33, 359, 179},
                                                          {2, 150, 48, 299, 149},
                                                          {3, 201, 16, 201, 0},
                                                          {2, 250, 7, 250, 249},
                                                          {1, 700, 2, 1399, 699},
                                                          {1, 5, 20, 17, 16},
                                                          {1, 5, 20, 17, 0}}) {
    SCOPED_TRACE(testing::Message() << length << " " << taps << " " << ahead);
    const Tensors given = {torch::randn({batch, length, width}, torch::kDouble),
                           torch::randn({width, taps}, torch::kDouble)};
    const torch::Tensor gradient = torch::randn({batch, length, width}, torch::kDouble);
    expect_kernel_as_exact(given, gradient, [&, ahead = ahead](Kernels kernels, const Tensors& t) {
      return long_convolution(kernels, {t[0], t[1], ahead});
    });
    EXPECT_LT(difference(long_convolution(Kernels::reference, {given[0], given[1], ahead}),
                         double_sum(given[0], given[1], ahead)),
              1e-12);
  }
}

// Evaluations of other batches may not differ, and a large result goes around the caches.
TEST(ConvolutionParity, OfASampleIsTheSameAlone) {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({9, 1024, 128}), taps = torch::randn({128, 2047}),
                      gradient = torch::randn_like(x);
  ASSERT_GT(x.nbytes(), 4 << 20);
  const auto of = [&](int64_t first, int64_t count) {
    const torch::Tensor given = x.narrow(0, first, count).detach().requires_grad_();
    const torch::Tensor out = long_convolution(Kernels::fused, {given, taps, 1023});
    return std::pair{out.detach(),
                     torch::autograd::grad({out}, {given}, {gradient.narrow(0, first, count)})[0]};
  };
  const auto [out, grad] = of(0, 9);
  for (const int64_t b : {0, 5, 8}) {
    const auto [out_alone, grad_alone] = of(b, 1);
    EXPECT_TRUE(torch::equal(out_alone[0], out[b])) << b;
    EXPECT_TRUE(torch::equal(grad_alone[0], grad[b])) << b;
  }
}

TEST(ConvolutionParity, OfAnEmptyBatch) {
  const torch::Tensor x = torch::randn({0, 120, 9}).requires_grad_(),
                      taps = torch::randn({9, 239}).requires_grad_();
  const torch::Tensor out = long_convolution(Kernels::fused, {x, taps, 119});
  EXPECT_EQ(out.sizes(), x.sizes());
  const auto gradients = torch::autograd::grad({out.sum()}, {x, taps});
  EXPECT_EQ(gradients[0].sizes(), x.sizes());
  EXPECT_TRUE(torch::equal(gradients[1], torch::zeros_like(taps)));
}

// Samples of a group are added up in their order, whichever thread does.
TEST(ConvolutionParity, GradientsOfTapsAreTheSameByAnyNumberOfThreads) {
  torch::manual_seed(1);
  const RestoredThreads restored;
  const torch::Tensor x = torch::randn({40, 100, 33}),
                      taps = torch::randn({33, 199}).requires_grad_();
  const auto gradient = [&](int threads) {
    at::set_num_threads(threads);
    // An expanded gradient.
    return torch::autograd::grad({long_convolution(Kernels::fused, {x, taps, 99}).sum()},
                                 {taps})[0];
  };
  const torch::Tensor one = gradient(1);
  EXPECT_TRUE(torch::equal(gradient(3), one));
  const torch::Tensor exact = torch::autograd::grad(
      {long_convolution(Kernels::reference, {x.to(torch::kDouble), taps.to(torch::kDouble), 99})
           .sum()},
      {taps})[0];
  EXPECT_LT(difference(one, exact) / exact.abs().max().item<double>(), 1e-6);
}

struct BiasCase {
  int64_t batch, heads, queries, keys, depth, values, reach;
  double dropout;
  bool causal = false;  // the bias of keys ahead is -1e30, as mega's
};

// Of q, k, v and biases; the mask [B,N] is of keys, and of queries where there are as many.
torch::Tensor biased(Kernels kernels, const Tensors& t, const torch::Tensor& mask, double dropout) {
  torch::manual_seed(2);  // of what is dropped
  const torch::Tensor queries = t[0].size(2) == t[1].size(2) ? mask : torch::Tensor();
  return softmax_attention(kernels, {.q = t[0],
                                     .k = t[1],
                                     .v = t[2],
                                     .keys = mask,
                                     .queries = queries,
                                     .options = {.dropout = dropout, .training = true},
                                     .distance_bias = t[3]});
}

// Below, at and above tiles of 128 queries and of 256 keys.
TEST(DistanceBiasParity, OfResultAndGradients) {
  torch::manual_seed(1);
  for (const BiasCase& c : {BiasCase{3, 1, 60, 60, 16, 24, 60, 0},
                            {2, 2, 300, 300, 8, 8, 301, 0},
                            {2, 1, 128, 128, 64, 128, 200, 0.2},
                            {2, 1, 300, 300, 8, 8, 301, 0, /*causal=*/true},
                            {2, 1, 37, 270, 5, 7, 270, 0},
                            {2, 1, 140, 20, 5, 7, 140, 0},
                            {2, 1, 1, 1, 3, 2, 1, 0}}) {
    SCOPED_TRACE(testing::Message() << c.queries << " " << c.keys);
    const auto made = [&](at::IntArrayRef sizes) { return torch::randn(sizes, torch::kDouble); };
    const Tensors given = {made({c.batch, c.heads, c.queries, c.depth}),
                           made({c.batch, c.heads, c.keys, c.depth}),
                           made({c.batch, c.heads, c.keys, c.values}), made({2 * c.reach - 1})};
    if (c.causal) given[3].narrow(0, c.reach, c.reach - 1).fill_(-1e30);
    torch::Tensor end = torch::ones({c.batch, c.keys}, torch::kBool);
    end[0].narrow(0, c.keys / 2, c.keys - c.keys / 2).fill_(false);  // one key: a sample of none
    torch::Tensor scattered = torch::rand({c.batch, c.keys}).lt(0.7);
    for (const torch::Tensor& mask : {end, scattered, torch::Tensor()}) {
      expect_kernel_as_exact(
          given, made({c.batch, c.heads, c.queries, c.values}),
          [&](Kernels kernels, const Tensors& t) { return biased(kernels, t, mask, c.dropout); });
    }
  }
}

TEST(DistanceBiasParity, OfTheSum) {
  torch::manual_seed(1);
  const Tensors t = {
      torch::randn({1, 1, 5, 3}, torch::kDouble), torch::randn({1, 1, 4, 3}, torch::kDouble),
      torch::randn({1, 1, 4, 2}, torch::kDouble), torch::randn({11}, torch::kDouble)};
  const torch::Tensor out = biased(Kernels::reference, t, {}, 0);
  for (int64_t i = 0; i < 5; ++i) {
    torch::Tensor weights = torch::zeros({4}, torch::kDouble);
    for (int64_t j = 0; j < 4; ++j) {
      weights[j] = (t[0][0][0][i] * t[1][0][0][j]).sum() / std::sqrt(3.0) + t[3][j - i + 5];
    }
    const torch::Tensor row = torch::matmul(torch::softmax(weights, 0), t[2][0][0]);
    EXPECT_LT(difference(out[0][0][i], row), 1e-14);
  }
  const auto of = [&](const torch::Tensor& bias) {
    return biased(Kernels::reference, {t[0], t[1], t[2], bias}, {}, 0);
  };
  EXPECT_NO_THROW(of(t[3].narrow(0, 0, 9)));
  EXPECT_THROW(of(t[3].narrow(0, 0, 7)), std::exception) << "too short";
  EXPECT_THROW(of(t[3].narrow(0, 0, 10)), std::exception) << "not 2R - 1";
  EXPECT_THROW(of(t[3].view({11, 1})), std::exception) << "two dimensions";
}

struct ScanCase {
  int64_t batch, length, width, states;
  bool both_ways;
};

Tensors scan_inputs(const ScanCase& c) {
  const torch::Tensor size = 0.5 + 0.499 * torch::rand({c.states}, torch::kDouble),
                      phase = 6.28 * torch::rand({c.states}, torch::kDouble);
  Tensors given = {torch::randn({c.batch, c.length, c.width}, torch::kDouble),
                   torch::stack({size * phase.cos(), size * phase.sin()}),
                   torch::randn({2 * c.states, c.width}, torch::kDouble),
                   torch::randn({c.width}, torch::kDouble),
                   torch::randn({c.width, 2 * c.states}, torch::kDouble)};
  if (c.both_ways) given.push_back(torch::randn({c.width, 2 * c.states}, torch::kDouble));
  return given;
}

torch::Tensor scan(Kernels kernels, const Tensors& t) {
  return diagonal_scan(kernels,
                       {t[0], t[1], t[2], t[3], t[4], t.size() == 6 ? t[5] : torch::Tensor()});
}

// Lengths below, at and above whole chunks of 128.
TEST(ScanParity, OfResultAndGradients) {
  torch::manual_seed(1);
  for (const ScanCase& c : {ScanCase{3, 100, 24, 37, false},
                            {2, 1, 5, 3, true},
                            {2, 128, 16, 64, true},
                            {1, 300, 9, 130, true},
                            {4, 257, 8, 16, false}}) {
    SCOPED_TRACE(testing::Message() << c.length << " " << c.states);
    expect_kernel_as_exact(scan_inputs(c),
                           torch::randn({c.batch, c.length, c.width}, torch::kDouble), scan);
  }
}

TEST(ScanParity, AnyNumberOfThreadsGivesTheSameResult) {
  torch::manual_seed(1);
  const RestoredThreads restored;
  Tensors given = scan_inputs({5, 150, 8, 16, true});
  for (torch::Tensor& t : given) t = t.to(torch::kFloat);
  at::set_num_threads(1);
  const torch::Tensor one = scan(Kernels::fused, given);
  at::set_num_threads(3);
  EXPECT_TRUE(torch::equal(scan(Kernels::fused, given), one));
}

// Of more rows than a tile's 256, and far into both tails of either.
Tensors gate_inputs(at::IntArrayRef sizes) {
  Tensors made;
  for (int i = 0; i < 2; ++i) {
    made.push_back(4 * torch::randn(sizes, torch::kDouble));
    const torch::Tensor tails = torch::tensor({40.0, -40.0, 100.0, -100.0});
    torch::Tensor all = made.back().flatten();
    all.narrow(0, 0, std::min<int64_t>(all.numel(), 4))
        .copy_(tails.narrow(0, 0, std::min<int64_t>(all.numel(), 4)));
  }
  return made;
}

TEST(GateParity, OfGeluInBothForms) {
  torch::manual_seed(1);
  for (const Gelu form : {Gelu::exact, Gelu::tanh}) {
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{3, 100, 37}, {1, 64}, {2, 3, 4, 5}, {7}}) {
      const Tensors given = {gate_inputs(sizes)[0]};
      expect_kernel_as_exact(
          given, torch::randn(sizes, torch::kDouble),
          [&](Kernels kernels, const Tensors& t) { return gelu(kernels, t[0], form); });
    }
  }
}

TEST(GateParity, OfSigmoidsAndTheGatedLinearUnit) {
  torch::manual_seed(1);
  for (const auto& [rows, width] : {std::pair{301, 37}, {5, 64}, {1, 1}}) {
    const Tensors given = gate_inputs({2, rows, width});
    const torch::Tensor gradient = torch::randn_like(given[0]);
    expect_kernel_as_exact(given, gradient, [](Kernels kernels, const Tensors& t) {
      return sigmoid_gate(kernels, t[0], t[1]);
    });
    expect_kernel_as_exact({torch::cat(given, 2)}, gradient,
                           [](Kernels kernels, const Tensors& t) { return glu(kernels, t[0]); });
  }
}

// Results, and gradients of a sum, which LibTorch expands from one number.
TEST(GateParity, OfRowsThatAreNotContiguous) {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({20, 30}, torch::kDouble).t(),
                      ones = torch::ones({}).expand({30, 20});
  expect_kernel_as_exact({x}, ones, [](Kernels kernels, const Tensors& t) {
    return gelu(kernels, t[0].t().contiguous().t(), Gelu::tanh);
  });
  expect_kernel_as_exact({x, x}, ones, [](Kernels kernels, const Tensors& t) {
    return sigmoid_gate(kernels, t[0].t().contiguous().t(), t[1].t().contiguous().t());
  });
}

// What broadcasts, and what has no rows, is LibTorch's.
TEST(Gates, OfOtherShapes) {
  const torch::Tensor x = torch::randn({2, 3, 4}), gate = torch::randn({4});
  EXPECT_LT(difference(sigmoid_gate(Kernels::fused, x, gate), x * gate.sigmoid()), 1e-6);
  EXPECT_LT(
      difference(gelu(Kernels::fused, torch::ones({}), Gelu::exact), torch::gelu(torch::ones({}))),
      1e-6);
  EXPECT_THROW(glu(Kernels::fused, torch::randn({2, 3})), c10::Error);
  EXPECT_EQ(glu(Kernels::fused, torch::randn({0, 6})).sizes(), (std::vector<int64_t>{0, 3}));
}

// States are kept between chunks alone: less than half a state a position.
TEST(ScanMemory, KeepsNoStateOfEveryPosition) {
  Tensors given = scan_inputs({1, 8192, 4, 64, false});
  for (torch::Tensor& t : given) t = t.to(torch::kFloat).requires_grad_();
  const int64_t states = 8192 * 2 * 64 * static_cast<int64_t>(sizeof(float));
  EXPECT_LT(peak_bytes([&] { scan(Kernels::fused, given).sum().backward(); }), states / 2);
}

TEST(ScanParity, IsDifferentiableOnce) {
  Tensors given = scan_inputs({1, 10, 4, 4, false});
  for (torch::Tensor& t : given) t = t.to(torch::kFloat).requires_grad_();
  const torch::Tensor out = scan(Kernels::fused, given).sum();
  EXPECT_THROW(torch::autograd::grad({out}, {given[0]}, {}, std::nullopt, /*create_graph=*/true),
               std::exception);
}

}  // namespace
}  // namespace lra::ops
