// The fused embedding against LibTorch's, with the same numbers dropped.
#include "attention_variants/ops/embedding.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attention_variants/ops/dropout.h"
#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using ops::Kernels;
using torch::Tensor;

struct EmbeddingCase {
  int64_t batch, length, width, vocabulary, positions;
  bool learned;
  double p;
  Device device = Device::cpu;
  bool first = false;
};
void PrintTo(const EmbeddingCase& c, std::ostream* to) {
  *to << fmt::format("{}x{}x{}, {} tokens, {} {} positions, dropout {}{}{}", c.batch, c.length,
                     c.width, c.vocabulary, c.positions, c.learned ? "learned" : "fixed", c.p,
                     c.device == Device::cpu ? "" : ", emulated GPU",
                     c.first ? ", first vector" : "");
}

class EmbeddingParity : public testing::TestWithParam<EmbeddingCase> {};

TEST_P(EmbeddingParity, OfResultAndGradients) {
  const EmbeddingCase& c = GetParam();
  torch::manual_seed(2);
  const int64_t length = c.length + (c.first ? 1 : 0);
  const Tensor ids = torch::randint(c.vocabulary, {c.batch, c.length}, torch::kInt64),
               tokens = torch::randn({c.vocabulary, c.width}),
               positions = torch::randn({c.positions, c.width}), first = torch::randn({c.width}),
               gradient = torch::randn({c.batch, length, c.width});
  const auto results = [&](torch::ScalarType type, bool fused) {
    std::vector<Tensor> leaves = {tokens.to(type).detach().clone().requires_grad_()};
    Tensor table = positions.to(type).detach().clone(), vector;
    if (c.learned) leaves.push_back(table.requires_grad_());
    if (c.first) leaves.push_back(vector = first.to(type).detach().clone().requires_grad_());
    const OnDevice on(fused ? c.device : Device::cpu);
    torch::manual_seed(9);
    Tensor y;
    if (fused) {
      y = ops::embed(Kernels::fused, ids,
                     {.tokens = leaves[0], .positions = table, .first = vector}, c.p,
                     /*training=*/true);
    } else {
      const Tensor kept =
          ops::philox_dropout(torch::ones(gradient.sizes()), c.p, /*training=*/true);
      Tensor rows = torch::embedding(leaves[0], ids);
      if (c.first) rows = torch::cat({vector.expand({c.batch, 1, c.width}), rows}, 1);
      y = (rows + table.slice(0, 0, length)) * kept.to(type);
    }
    std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {gradient.to(type)});
    all.insert(all.begin(), y.detach());
    return all;
  };
  const auto fused = results(torch::kFloat, true), plain = results(torch::kFloat, false),
             exact = results(torch::kDouble, false);
  expect_as_exact(fused, plain, exact);
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmbeddingParity,
                         testing::Values(EmbeddingCase{1, 1, 8, 1, 1, true, 0},
                                         EmbeddingCase{3, 300, 64, 20, 300, true, 0.1},
                                         EmbeddingCase{5, 257, 5, 260, 400, true, 0.5},
                                         EmbeddingCase{4, 512, 16, 7, 512, false, 0.25}));

INSTANTIATE_TEST_SUITE_P(
    Emulated, EmbeddingParity,
    testing::Values(EmbeddingCase{1, 1, 8, 1, 1, true, 0, kEmulatedGpu},
                    EmbeddingCase{3, 90, 64, 20, 90, true, 0.1, kEmulatedGpu},
                    EmbeddingCase{5, 57, 5, 260, 400, true, 0.5, kEmulatedGpu, true},
                    EmbeddingCase{4, 112, 16, 7, 113, false, 0.25, kEmulatedGpu, true}));

class EmbeddingOnDevices : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, EmbeddingOnDevices, testing::Values(Device::cpu, kEmulatedGpu));

TEST_P(EmbeddingOnDevices, LeavesPaddingOut) {
  const OnDevice on(GetParam());
  torch::manual_seed(3);
  const Tensor ids = torch::randint(9, {3, 700}, torch::kInt64);
  Tensor mask = torch::ones({3, 700}, torch::kBool);
  mask[1].slice(0, 3).fill_(false);
  mask[2].fill_(false);
  const Tensor real = mask.unsqueeze(-1), gradient = torch::randn({3, 700, 12}) * real,
               tokens = torch::randn({9, 12}), positions = torch::randn({700, 12});
  const auto with = [&](const Tensor& given_mask) {
    const std::vector<Tensor> leaves = {tokens.clone().requires_grad_(),
                                        positions.clone().requires_grad_()};
    torch::manual_seed(4);
    const Tensor y = ops::embed(Kernels::fused, ids, {.tokens = leaves[0], .positions = leaves[1]},
                                0.2, true, given_mask);
    std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {gradient});
    all.insert(all.begin(), y.detach());
    return all;
  };
  const auto all = with({}), some = with(mask);
  EXPECT_TRUE(torch::equal(all[0] * real, some[0] * real));
  EXPECT_EQ(some[0][2].slice(0, 200).abs().max().item<float>(), 0.0F);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_TRUE(torch::allclose(all[i], some[i], 1e-5, 1e-5));
}

TEST(Embedding, RefusesIdsAndLengthsThatTheTablesLack) {
  const ops::EmbeddingTables tables{.tokens = torch::zeros({9, 4}),
                                    .positions = torch::zeros({5, 4})};
  const auto ids = [](int64_t value, int64_t length) {
    return torch::full({1, length}, value, torch::kInt64);
  };
  EXPECT_NO_THROW(ops::embed(Kernels::fused, ids(8, 5), tables, 0, false));
  EXPECT_THROW(ops::embed(Kernels::fused, ids(9, 5), tables, 0, false), c10::Error);
  EXPECT_THROW(ops::embed(Kernels::fused, ids(-1, 5), tables, 0, false), c10::Error);
  EXPECT_THROW(ops::embed(Kernels::fused, ids(8, 6), tables, 0, false), c10::Error);
}

}  // namespace
}  // namespace lra
