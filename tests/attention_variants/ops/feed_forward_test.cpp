// The model's fused operators against LibTorch's, with the same numbers dropped.
#include "attention_variants/ops/feed_forward.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/dropout.h"
#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using torch::Tensor;

ops::FeedForwardWeights make_weights(int64_t width, int64_t hidden, bool normed) {
  torch::manual_seed(7);
  const int64_t norm = normed ? width : 0;
  return {.norm_weight = torch::rand({norm}) + 0.5,
          .norm_bias = torch::randn({norm}),
          .in_weight = torch::randn({hidden, width}) * 0.3,
          .in_bias = torch::randn({hidden}),
          .out_weight = torch::randn({width, hidden}) * 0.3,
          .out_bias = torch::randn({width})};
}

std::vector<Tensor> list(const ops::FeedForwardWeights& w) {
  return {w.norm_weight, w.norm_bias, w.in_weight, w.in_bias, w.out_weight, w.out_bias};
}

ops::FeedForwardWeights from(const std::vector<Tensor>& w, ops::Gelu gelu = ops::Gelu::exact) {
  return {.norm_weight = w[0],
          .norm_bias = w[1],
          .in_weight = w[2],
          .in_bias = w[3],
          .out_weight = w[4],
          .out_bias = w[5],
          .gelu = gelu};
}

// The formula, in the type of x; dropouts as philox_dropout() draws them for float32.
Tensor plain(const Tensor& x, const ops::FeedForwardWeights& w, double p) {
  const auto drop = [&](const Tensor& y) {
    return y *
           ops::philox_dropout(torch::ones(y.sizes()), p, /*training=*/true).to(y.scalar_type());
  };
  const int64_t width = x.size(-1);
  const Tensor normal = w.norm_weight.size(0) > 0
                            ? torch::layer_norm(x, {width}, w.norm_weight, w.norm_bias, w.norm_eps)
                            : x;
  const Tensor hidden = drop(at::gelu(torch::matmul(normal, w.in_weight.t()) + w.in_bias,
                                      w.gelu == ops::Gelu::tanh ? "tanh" : "none"));
  return x + drop(torch::matmul(hidden, w.out_weight.t()) + w.out_bias);
}

// Result and all gradients.
std::vector<Tensor> results(const Tensor& given, const ops::FeedForwardWeights& weights,
                            torch::ScalarType type, double p, const Tensor& gradient, bool fused,
                            Device device = Device::cpu) {
  const OnDevice on(fused ? device : Device::cpu);
  Tensor x = given.to(type).detach().requires_grad_();
  std::vector<Tensor> leaves = list(weights);
  for (Tensor& w : leaves) w = w.to(type).detach().requires_grad_();
  torch::manual_seed(11);
  const ops::FeedForwardWeights w = from(leaves, weights.gelu);
  const Tensor y =
      fused ? ops::feed_forward(Kernels::fused, x, w, p, /*training=*/true) : plain(x, w, p);
  leaves.insert(leaves.begin(), x);
  std::vector<Tensor> used;
  for (const Tensor& leaf : leaves) {
    if (leaf.numel() > 0) used.push_back(leaf);
  }
  std::vector<Tensor> all = torch::autograd::grad({y}, used, {gradient.to(type)});
  all.insert(all.begin(), y.detach());
  return all;
}

struct Shape {
  int64_t rows, width, hidden;
  bool normed;
  double p;
  Device device = Device::cpu;
  ops::Gelu gelu = ops::Gelu::exact;
};
void PrintTo(const Shape& s, std::ostream* to) {
  *to << fmt::format("{}x{}, {} hidden, {}, dropout {}{}{}", s.rows, s.width, s.hidden,
                     s.normed ? "with a norm" : "without a norm", s.p,
                     s.device == Device::cpu ? "" : ", emulated GPU",
                     s.gelu == ops::Gelu::tanh ? ", tanh" : "");
}

class FeedForwardParity : public testing::TestWithParam<Shape> {};

TEST_P(FeedForwardParity, OfResultAndGradients) {
  const Shape& s = GetParam();
  ops::FeedForwardWeights weights = make_weights(s.width, s.hidden, s.normed);
  weights.gelu = s.gelu;
  const Tensor x = torch::randn({1, s.rows, s.width}), gradient = torch::randn_like(x);
  const auto fused = results(x, weights, torch::kFloat, s.p, gradient, true, s.device),
             plain32 = results(x, weights, torch::kFloat, s.p, gradient, false),
             exact = results(x, weights, torch::kDouble, s.p, gradient, false);
  expect_as_exact(fused, plain32, exact);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FeedForwardParity,
                         testing::Values(Shape{1, 8, 16, true, 0}, Shape{255, 64, 128, true, 0.1},
                                         Shape{1000, 64, 128, true, 0.1},
                                         Shape{513, 32, 24, false, 0.5},
                                         Shape{700, 5, 3, true, 0.25},
                                         Shape{256, 17, 40, false, 0}));

constexpr Device kEmulated = Device::emulated_gpu;
INSTANTIATE_TEST_SUITE_P(Emulated, FeedForwardParity,
                         testing::Values(Shape{1, 8, 16, true, 0, kEmulated},
                                         Shape{255, 64, 128, true, 0.1, kEmulated},
                                         Shape{113, 32, 24, false, 0.5, kEmulated},
                                         Shape{70, 5, 3, true, 0.25, kEmulated, ops::Gelu::tanh},
                                         Shape{90, 17, 40, false, 0, kEmulated}));

// Each under autocast, against float64: own kernels by little more than LibTorch's operators.
TEST(FeedForward, ComputesInBfloat16UnderAutocast) {
  const ops::FeedForwardWeights weights = make_weights(64, 128, true);
  const Tensor x = torch::randn({1, 150, 64}), gradient = torch::randn_like(x);
  const auto exact = results(x, weights, torch::kDouble, 0.1, gradient, false);
  std::vector<Tensor> given, plain16;
  {
    const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
    given = results(x, weights, torch::kFloat, 0.1, gradient, true, kEmulated);
    plain16 = results(x, weights, torch::kFloat, 0.1, gradient, false);
  }
  EXPECT_EQ(given.front().scalar_type(), torch::kFloat);
  EXPECT_GT(error(given.front(), exact.front()), 1e-5) << "this is not bfloat16";
  expect_as_exact(given, plain16, exact, 1e-2);
}

TEST(FeedForward, LaunchesFewKernelsOfItsOwn) {
  const ops::FeedForwardWeights weights = make_weights(64, 128, true);
  const Tensor x = torch::randn({1, 150, 64});
  const int64_t before = emulator::launches();
  results(x, weights, torch::kFloat, 0.1, torch::randn_like(x), true, kEmulated);
  // Norm, GELU, sum; and both backward, the norm, and the sums of all parts.
  EXPECT_EQ(emulator::launches() - before, 3 + 4);
}

TEST(FeedForward, EvaluationDropsNothing) {
  const ops::FeedForwardWeights weights = make_weights(16, 32, true);
  const Tensor x = torch::randn({3, 50, 16});
  const Tensor y = ops::feed_forward(Kernels::fused, x, weights, 0.5, /*training=*/false);
  EXPECT_LT((y - plain(x, weights, 0)).abs().max().item<double>(), 1e-5);
}

TEST(FeedForward, IsTheSameForTheSameNumberOfThreads) {
  const ops::FeedForwardWeights weights = make_weights(64, 128, true);
  const Tensor x = torch::randn({2, 1500, 64}), gradient = torch::randn_like(x);
  const RestoredThreads restored;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const auto once = results(x, weights, torch::kFloat, 0.1, gradient, true),
               again = results(x, weights, torch::kFloat, 0.1, gradient, true);
    for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i])) << i;
  }
}

class RowSums : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, RowSums, testing::Values(Device::cpu, Device::emulated_gpu));

TEST_P(RowSums, OfDroppedRowsAndTheirGradients) {
  torch::manual_seed(5);
  const Tensor x = torch::randn({3, 1001, 7}).requires_grad_(),
               y = torch::randn({3, 1001, 7}).requires_grad_(),
               gradient = torch::randn({3, 1001, 7});
  Tensor fused, kept;
  std::vector<Tensor> fused_gradients;
  {
    const OnDevice on(GetParam());
    torch::manual_seed(6);
    fused = ops::add_dropped_out(Kernels::fused, x, y, 0.3, /*training=*/true);
    fused_gradients = torch::autograd::grad({fused}, {x, y}, {gradient});
    kept = ops::add_dropped_out(Kernels::fused, x, y, 0.3, /*training=*/false);
  }
  torch::manual_seed(6);
  const Tensor sum = x + ops::philox_dropout(y, 0.3, /*training=*/true);
  const auto gradients = torch::autograd::grad({sum}, {x, y}, {gradient});
  EXPECT_TRUE(torch::equal(fused, sum));
  EXPECT_TRUE(torch::equal(fused_gradients[0], gradients[0]));
  EXPECT_TRUE(torch::equal(fused_gradients[1], gradients[1]));
  EXPECT_TRUE(torch::equal(kept, x + y));
}

TEST_P(RowSums, OfProjectedRowsAndTheirGradients) {
  torch::manual_seed(5);
  const std::vector<Tensor> given = {torch::randn({3, 1001, 7}), torch::randn({3, 1001, 10}),
                                     torch::randn({7, 10}), torch::randn({7})};
  const Tensor gradient = torch::randn({3, 1001, 7});
  const auto results_with = [&](torch::ScalarType type, bool fused) {
    std::vector<Tensor> leaves;
    for (const Tensor& t : given) leaves.push_back(t.to(type).detach().requires_grad_());
    torch::manual_seed(6);
    const Tensor drawn = ops::philox_dropout(torch::ones({3, 1001, 7}), 0.3, /*training=*/true);
    torch::manual_seed(6);
    const OnDevice on(fused ? GetParam() : Device::cpu);
    const Tensor y =
        fused ? ops::add_projected(Kernels::fused, leaves[0], leaves[1],
                                   {.weight = leaves[2], .bias = leaves[3]}, 0.3,
                                   /*training=*/true)
              : leaves[0] + torch::linear(leaves[1], leaves[2], leaves[3]) * drawn.to(type);
    std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {gradient.to(type)});
    all.insert(all.begin(), y.detach());
    return all;
  };
  const auto fused = results_with(torch::kFloat, true), exact = results_with(torch::kDouble, false);
  for (size_t i = 0; i < exact.size(); ++i) {
    const double size = exact[i].abs().max().item<double>();
    EXPECT_LT((fused[i].to(torch::kDouble) - exact[i]).abs().max().item<double>(), 2e-6 * size)
        << i;
  }
}

// Tiles without a token are left out; all real rows and all gradients stay as they were.
TEST_P(RowSums, LeavePaddingOut) {
  const OnDevice on(GetParam());
  const ops::FeedForwardWeights weights = make_weights(12, 20, true);
  const Tensor x = torch::randn({3, 700, 12});
  Tensor mask = torch::ones({3, 700}, torch::kBool);
  mask[1].slice(0, 3).fill_(false);
  mask[2].slice(0, 300).fill_(false);
  const Tensor real = mask.unsqueeze(-1), gradient = torch::randn_like(x) * real;
  const auto results_with = [&](const Tensor& given_mask) {
    std::vector<Tensor> leaves = {x.clone().requires_grad_()};
    for (const Tensor& w : list(weights)) leaves.push_back(w.clone().requires_grad_());
    torch::manual_seed(9);
    const Tensor inner =
        ops::feed_forward(Kernels::fused, leaves[0], from({leaves.begin() + 1, leaves.end()}), 0.2,
                          /*training=*/true, given_mask);
    const Tensor between = ops::add_dropped_out(Kernels::fused, leaves[0], inner, 0.2,
                                                /*training=*/true, given_mask),
                 y = ops::add_projected(Kernels::fused, leaves[0], between,
                                        {.weight = torch::eye(12) * 0.5, .bias = torch::ones({12})},
                                        0.2,
                                        /*training=*/true, given_mask);
    std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {gradient});
    all.insert(all.begin(), y.detach());
    return all;
  };
  const auto all = results_with({}), some = results_with(mask);
  EXPECT_TRUE(torch::equal(all[0] * real, some[0] * real));
  EXPECT_TRUE(some[0].isfinite().all().item<bool>());
  EXPECT_EQ(some[0][1].slice(0, 100, 500).abs().max().item<float>(), 0.0F);
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_TRUE(torch::allclose(all[i], some[i], 1e-5, 1e-5)) << i;
}

// Samples 1 and 2 of three alone, of a size that begins no block of a dropout.
TEST(FeedForward, APartOfABatchIsThatPartOfTheWhole) {
  const ops::FeedForwardWeights weights = make_weights(12, 20, true);
  const Tensor x = torch::randn({3, 301, 12}), gradient = torch::randn_like(x);
  const auto gradients = [&](const Tensor& given, const Tensor& of) {
    const Tensor leaf = given.clone().requires_grad_();
    const Tensor y = ops::add_dropped_out(
        Kernels::fused, leaf, ops::feed_forward(Kernels::fused, leaf, weights, 0.2, true), 0.2,
        true);
    return std::pair{y.detach(), torch::autograd::grad({y}, {leaf}, {of})[0]};
  };
  torch::manual_seed(8);
  const auto [whole, whole_gradient] = gradients(x, gradient);
  const ops::BatchSlice part(1, 2, at::make_generator<at::CPUGeneratorImpl>(uint64_t{8}));
  const auto [y, y_gradient] = gradients(x.slice(0, 1), gradient.slice(0, 1));
  // Tiles begin at other rows, so products may differ in their last bits; a number dropped
  // elsewhere would differ by about 1.
  EXPECT_TRUE(torch::allclose(y, whole.slice(0, 1), 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(y_gradient, whole_gradient.slice(0, 1), 1e-5, 1e-5));
}

// A parameter may be a view: a column of a table, say.
TEST(FeedForward, ReadsABiasWhereItsElementsLieApart) {
  torch::manual_seed(31);
  const Tensor x = torch::randn({2, 9, 12}), y = torch::randn({2, 9, 5}), w = torch::randn({12, 5}),
               bias = torch::randn({12, 4}).select(1, 2);
  ASSERT_EQ(bias.stride(0), 4);
  EXPECT_TRUE(torch::allclose(
      ops::add_projected(Kernels::fused, x, y, {.weight = w, .bias = bias}, 0, /*training=*/false),
      x + torch::linear(y, w, bias), 1e-5, 1e-5));
  ops::FeedForwardWeights weights = make_weights(12, 20, true);
  const Tensor exact = ops::feed_forward(Kernels::fused, x, weights, 0, /*training=*/false);
  weights.out_bias = torch::stack({weights.out_bias, bias}, 1).select(1, 0);
  EXPECT_TRUE(
      torch::equal(ops::feed_forward(Kernels::fused, x, weights, 0, /*training=*/false), exact));
}

}  // namespace
}  // namespace lra
