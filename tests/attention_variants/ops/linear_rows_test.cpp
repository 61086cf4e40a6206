// Linear layers of rows, with and without a normalisation before them, against LibTorch's.
#include <gtest/gtest.h>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/linear.h"
#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

class LinearOnDevices : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, LinearOnDevices,
                         testing::Values(Device::cpu, Device::emulated_gpu));

TEST_P(LinearOnDevices, LeavesTilesOfPaddingOut) {
  const OnDevice on(GetParam());
  torch::manual_seed(5);
  torch::Tensor mask = torch::ones({3, 700}, torch::kBool);
  mask[1].slice(0, 3).fill_(false);
  mask[2].slice(0, 300).fill_(false);
  const torch::Tensor real = mask.unsqueeze(-1), x = torch::randn({3, 700, 10}).requires_grad_();
  std::vector<ops::LinearWeights> layers(3);
  std::vector<torch::Tensor> leaves = {x};
  for (ops::LinearWeights& layer : layers) {
    layer = {.weight = torch::randn({6, 10}).requires_grad_(),
             .bias = torch::randn({6}).requires_grad_()};
    leaves.insert(leaves.end(), {layer.weight, layer.bias});
  }
  const std::vector<torch::Tensor> gradients = {torch::randn({3, 700, 6}) * real,
                                                torch::randn({3, 700, 6}) * real,
                                                torch::randn({3, 700, 6}) * real};
  const auto some = ops::linear(Kernels::fused, x, nullptr, layers, mask).y;
  std::vector<torch::Tensor> plain;
  for (size_t i = 0; i < 3; ++i) {
    plain.push_back(torch::linear(x, layers[i].weight, layers[i].bias));
    EXPECT_TRUE(torch::allclose(some[i] * real, plain[i] * real, 1e-5, 1e-5));
    if (GetParam() == Device::cpu) {
      EXPECT_EQ(some[i][1].slice(0, 100, 500).abs().max().item<float>(), 0.0F);
    }
  }
  const auto given = torch::autograd::grad({some[0], some[1], some[2]}, leaves, gradients),
             exact = torch::autograd::grad(plain, leaves, gradients);
  for (size_t i = 0; i < given.size(); ++i)
    EXPECT_TRUE(torch::allclose(given[i], exact[i], 1e-4, 1e-4)) << i;
}

// A parameter may be a view: a column of a table, say.
TEST_P(LinearOnDevices, ReadsABiasWhereItsElementsLieApart) {
  const OnDevice on(GetParam());
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({2, 9, 10}), table = torch::randn({6, 3}),
                      mask = torch::ones({2, 9}, torch::kBool);
  const ops::LinearWeights layer{.weight = torch::randn({6, 10}), .bias = table.select(1, 1)};
  ASSERT_EQ(layer.bias.stride(0), 3);
  const torch::Tensor plain = torch::linear(x, layer.weight, layer.bias);
  EXPECT_TRUE(
      torch::allclose(ops::linear(Kernels::fused, x, nullptr, {layer}).y[0], plain, 1e-5, 1e-5));
  EXPECT_TRUE(
      torch::allclose(ops::masked_linear(Kernels::fused, x, layer, mask), plain, 1e-5, 1e-5));
}

class SomeLinearRows : public testing::TestWithParam<std::pair<int64_t, Device>> {};

TEST_P(SomeLinearRows, NormaliseFirstAndPassTheRowsOn) {
  const auto [count, device] = GetParam();
  torch::manual_seed(8);
  std::vector<torch::Tensor> given = {torch::randn({3, 301, 10}) + 2, torch::rand({10}) + 0.5,
                                      torch::randn({10})};
  std::vector<torch::Tensor> gradients;
  for (int64_t i = 0; i < count; ++i) {
    given.push_back(torch::randn({6 + i, 10}));
    given.push_back(torch::randn({6 + i}));
    gradients.push_back(torch::randn({3, 301, 6 + i}));
  }
  gradients.push_back(torch::randn({3, 301, 10}));
  const auto results = [&, on = device](torch::ScalarType type, bool fused) {
    const OnDevice there(fused ? on : Device::cpu);
    std::vector<torch::Tensor> leaves, towards;
    for (const torch::Tensor& t : given) leaves.push_back(t.to(type).detach().requires_grad_());
    for (const torch::Tensor& t : gradients) towards.push_back(t.to(type));
    std::vector<ops::LinearWeights> layers;
    for (size_t i = 3; i < leaves.size(); i += 2)
      layers.push_back({.weight = leaves[i], .bias = leaves[i + 1]});
    std::vector<torch::Tensor> all;
    if (fused) {
      const ops::RowNorm norm{.weight = leaves[1], .bias = leaves[2]};
      const auto [y, x] = ops::linear(Kernels::fused, leaves[0], &norm, layers);
      all = y;
      all.push_back(x);
    } else {
      const torch::Tensor normal = torch::layer_norm(leaves[0], {10}, leaves[1], leaves[2]);
      for (const ops::LinearWeights& layer : layers)
        all.push_back(torch::linear(normal, layer.weight, layer.bias));
      all.push_back(leaves[0].clone());
    }
    const auto found = torch::autograd::grad(all, leaves, towards);
    all.insert(all.end(), found.begin(), found.end());
    return all;
  };
  const auto fused = results(torch::kFloat, true), exact = results(torch::kDouble, false);
  ASSERT_EQ(fused.size(), exact.size());
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_LT(error(fused[i], exact[i]), 3e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(Layers, SomeLinearRows,
                         testing::Values(std::pair{1, Device::cpu}, std::pair{2, Device::cpu},
                                         std::pair{3, Device::cpu},
                                         std::pair{1, Device::emulated_gpu},
                                         std::pair{3, Device::emulated_gpu}));

// Gradients that are parts of one tensor are read there; where they overlap they are copied.
TEST(LinearRows, ReadGradientsThatLieSideBySide) {
  torch::manual_seed(10);
  const OnDevice on(Device::emulated_gpu);
  for (const int64_t batch : {1, 2}) {
    const torch::Tensor x = torch::randn({batch, 9, 10}), all = torch::randn({batch, 9, 12}),
                        past = torch::randn_like(x);
    std::vector<torch::Tensor> leaves = {x.requires_grad_()};
    std::vector<ops::LinearWeights> layers;
    for (const int64_t width : {5, 4, 3}) {
      layers.push_back({.weight = torch::randn({width, 10}).requires_grad_(),
                        .bias = torch::randn({width}).requires_grad_()});
      leaves.insert(leaves.end(), {layers.back().weight, layers.back().bias});
    }
    const auto results = [&](const std::vector<torch::Tensor>& gradients) {
      const auto [y, passed] = ops::linear(Kernels::fused, x, nullptr, layers);
      return torch::autograd::grad({y[0], y[1], y[2], passed}, leaves,
                                   {gradients[0], gradients[1], gradients[2], past});
    };
    const std::vector<torch::Tensor> parts = {all.narrow(2, 0, 5), all.narrow(2, 5, 4),
                                              all.narrow(2, 9, 3)};
    const auto joined = results(parts),
               apart = results({parts[0].clone(), parts[1].clone(), parts[2].clone()});
    for (size_t i = 0; i < joined.size(); ++i) EXPECT_TRUE(torch::equal(joined[i], apart[i])) << i;
    // The second of width 4 begins before the first of width 5 ends.
    const std::vector<torch::Tensor> mixed = {all.narrow(2, 0, 5), all.narrow(2, 4, 4),
                                              all.narrow(2, 9, 3)};
    const auto found = results(mixed),
               expected = results({mixed[0].clone(), mixed[1].clone(), mixed[2].clone()});
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
  }
}

// Under autocast the products are of bfloat16, and x and its gradient past them stay float32.
TEST(LinearRows, ComputeInBfloat16UnderAutocast) {
  torch::manual_seed(9);
  const std::vector<torch::Tensor> given = {
      torch::randn({2, 50, 16}), torch::rand({16}) + 0.5, torch::randn({16}), torch::randn({8, 16}),
      torch::randn({8}),         torch::randn({8, 16}),   torch::randn({8})};
  const torch::Tensor gradient = torch::randn({2, 50, 8}), past = torch::randn({2, 50, 16});
  const auto results = [&](torch::ScalarType type, Kernels kernels, Device device) {
    const OnDevice on(device);
    std::vector<torch::Tensor> leaves;
    for (const torch::Tensor& t : given) leaves.push_back(t.to(type).detach().requires_grad_());
    const ops::RowNorm norm{.weight = leaves[1], .bias = leaves[2]};
    const auto [y, x] = ops::linear(
        kernels, leaves[0], &norm,
        {{.weight = leaves[3], .bias = leaves[4]}, {.weight = leaves[5], .bias = leaves[6]}});
    std::vector<torch::Tensor> all = {y[0].detach(), y[1].detach()};
    const auto of = [&](const torch::Tensor& t) { return gradient.to(t.scalar_type()); };
    for (const torch::Tensor& t : torch::autograd::grad(
             {y[0], y[1], x}, leaves, {of(y[0]), of(y[1]), past.to(x.scalar_type())}))
      all.push_back(t);
    return all;
  };
  const auto exact = results(torch::kDouble, Kernels::reference, Device::cpu);
  std::vector<torch::Tensor> fused, plain;
  {
    const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
    fused = results(torch::kFloat, Kernels::fused, Device::emulated_gpu);
    plain = results(torch::kFloat, Kernels::reference, Device::cpu);
  }
  EXPECT_EQ(fused[0].scalar_type(), torch::kBFloat16);
  EXPECT_EQ(fused[2].scalar_type(), torch::kFloat);
  expect_as_exact(fused, plain, exact, 1e-2);
}

// Both of the same linear layer: the product, and what masks its rows.
TEST(MaskedLinear, ZeroesPaddingAndItsGradient) {
  torch::manual_seed(7);
  torch::Tensor mask = torch::ones({2, 40}, torch::kBool);
  mask[1].slice(0, 5).fill_(false);
  const std::vector<torch::Tensor> given = {torch::randn({2, 40, 10}), torch::randn({6, 10}),
                                            torch::randn({6})};
  const torch::Tensor gradient = torch::randn({2, 40, 6});
  const auto results = [&](torch::ScalarType type, Kernels kernels, Device device) {
    const OnDevice on(device);
    std::vector<torch::Tensor> leaves;
    for (const torch::Tensor& t : given) leaves.push_back(t.to(type).detach().requires_grad_());
    const torch::Tensor y =
        ops::masked_linear(kernels, leaves[0], {.weight = leaves[1], .bias = leaves[2]}, mask);
    std::vector<torch::Tensor> all = torch::autograd::grad({y}, leaves, {gradient.to(type)});
    all.push_back(y.detach());
    return all;
  };
  const auto exact = results(torch::kDouble, Kernels::reference, Device::cpu);
  for (const Device device : {Device::cpu, Device::emulated_gpu}) {
    const auto fused = results(torch::kFloat, Kernels::fused, device);
    for (size_t i = 0; i < exact.size(); ++i) EXPECT_LT(error(fused[i], exact[i]), 1e-6) << i;
    EXPECT_EQ(fused.back()[1].slice(0, 5).abs().max().item<float>(), 0.0F);
  }
}

}  // namespace
}  // namespace lra
