// The fused layer normalisation and its mean against LibTorch's, in float64.
#include "attention_variants/ops/layer_norm.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attention_variants/ops/cuda/kernels/rows/norm_rows.h"
#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"
#include "tests/cuda_emulator/testing.h"

namespace lra {
namespace {

using ops::Kernels;
using torch::Tensor;

constexpr double kEps = 1e-5;

struct NormCase {
  int64_t batch, length, width;
  double offset;  // of x: a mean far from zero costs digits
  Device device = Device::cpu;
};
void PrintTo(const NormCase& c, std::ostream* to) {
  *to << fmt::format("{}x{}x{}, offset {}{}", c.batch, c.length, c.width, c.offset,
                     c.device == Device::cpu ? "" : ", emulated GPU");
}

Tensor some_mask(const NormCase& c) {
  Tensor mask = torch::rand({c.batch, c.length}) > 0.3;
  mask.select(0, 0).fill_(true);
  if (c.batch > 1) mask[1].slice(0, std::min<int64_t>(c.length, 3)).fill_(false);
  if (c.batch > 2) mask[2].fill_(false);
  return mask;
}

struct NormInputs {
  Tensor x, weight, bias, mask;
  explicit NormInputs(const NormCase& c)
      : x(torch::randn({c.batch, c.length, c.width}) + c.offset),
        weight(torch::rand({c.width}) + 0.5),
        bias(torch::randn({c.width})),
        mask(some_mask(c)) {}
};

// {result, gradients of x, weight and bias}, given how to compute it and the result's gradient.
template <class Compute>
std::vector<Tensor> with_gradients(const NormInputs& in, torch::ScalarType type,
                                   const Tensor& gradient, const Compute& compute) {
  std::vector<Tensor> leaves;
  for (const Tensor& t : {in.x, in.weight, in.bias})
    leaves.push_back(t.to(type).detach().clone().requires_grad_());
  const Tensor y = compute(leaves[0], leaves[1], leaves[2]);
  std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {gradient.to(type)});
  all.insert(all.begin(), y.detach());
  return all;
}

class LayerNormParity : public testing::TestWithParam<NormCase> {
 protected:
  void SetUp() override { torch::manual_seed(3); }

  // with_gradients() of the own kernels, on the device of the case.
  template <class Compute>
  static std::vector<Tensor> fused_with_gradients(const NormInputs& in, const Tensor& gradient,
                                                  const Compute& compute) {
    const OnDevice on(GetParam().device);
    return with_gradients(in, torch::kFloat, gradient, compute);
  }
};

TEST_P(LayerNormParity, OfRows) {
  const NormInputs in(GetParam());
  const Tensor gradient = torch::randn_like(in.x);
  const auto plain = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return torch::layer_norm(x, {x.size(-1)}, w, b, kEps);
  };
  const auto fused = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return ops::layer_norm(Kernels::fused, x, {.weight = w, .bias = b, .eps = kEps});
  };
  expect_as_exact(fused_with_gradients(in, gradient, fused),
                  with_gradients(in, torch::kFloat, gradient, plain),
                  with_gradients(in, torch::kDouble, gradient, plain));
}

// Over the tokens and over a number; with NaN in what is no token where the kernels of GPUs run.
TEST_P(LayerNormParity, OfTheMeanOfTokens) {
  const NormInputs in(GetParam());
  NormInputs padded(in);
  const bool by_rows = GetParam().device != Device::cpu && in.x.size(2) <= ops::cuda::kMaxNormWidth;
  padded.x = in.x.masked_fill(in.mask.logical_not().unsqueeze(-1), by_rows ? NAN : 7.0F);
  const Tensor gradient = torch::randn({in.x.size(0), in.x.size(2)});
  for (const int64_t over : {0, 9}) {
    const auto plain = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
      const Tensor y = torch::layer_norm(x, {x.size(-1)}, w, b, kEps),
                   real = in.mask.unsqueeze(-1).to(x.scalar_type()), sum = (y * real).sum(1);
      return over == 0 ? sum / real.sum(1).clamp_min(1) : sum / static_cast<double>(over);
    };
    const auto fused = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
      return ops::layer_norm_mean(Kernels::fused, x, {.weight = w, .bias = b, .eps = kEps}, in.mask,
                                  over);
    };
    expect_as_exact(fused_with_gradients(padded, gradient, fused),
                    with_gradients(in, torch::kFloat, gradient, plain),
                    with_gradients(in, torch::kDouble, gradient, plain));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LayerNormParity,
                         testing::Values(NormCase{1, 1, 8, 0}, NormCase{2, 255, 64, 0},
                                         NormCase{4, 1000, 64, 1}, NormCase{3, 513, 5, -3},
                                         NormCase{2, 256, 17, 0}));

INSTANTIATE_TEST_SUITE_P(
    Emulated, LayerNormParity,
    testing::Values(NormCase{1, 1, 8, 0, kEmulatedGpu}, NormCase{2, 55, 64, 0, kEmulatedGpu},
                    NormCase{4, 100, 64, 1, kEmulatedGpu}, NormCase{3, 113, 5, -3, kEmulatedGpu},
                    NormCase{2, 6, 1024, 0, kEmulatedGpu}, NormCase{2, 6, 1030, 0, kEmulatedGpu}));

class LayerNormOnDevices : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, LayerNormOnDevices, testing::Values(Device::cpu, kEmulatedGpu));

// Tiles, or rows, without a token are left out; real rows and all gradients stay as they were.
TEST_P(LayerNormOnDevices, LeavesPaddingOut) {
  const OnDevice on(GetParam());
  torch::manual_seed(4);
  const NormInputs in(NormCase{3, 700, 12, 0});
  const Tensor real = in.mask.unsqueeze(-1), gradient = torch::randn_like(in.x) * real;
  const auto with = [&](const Tensor& mask) {
    return with_gradients(
        in, torch::kFloat, gradient, [&](const Tensor& x, const Tensor& w, const Tensor& b) {
          return ops::layer_norm(Kernels::fused, x, {.weight = w, .bias = b, .eps = kEps}, mask);
        });
  };
  const auto all = with({}), some = with(in.mask);
  EXPECT_TRUE(torch::equal(all[0] * real, some[0] * real));
  EXPECT_EQ(some[0][2].abs().max().item<float>(), 0.0F);
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_TRUE(torch::allclose(all[i], some[i], 1e-5, 1e-5)) << i;
}

TEST(LayerNorm, OnAGpuIsOneLaunchAndTwoBack) {
  const NormInputs in(NormCase{2, 30, 64, 0});
  const OnDevice on(kEmulatedGpu);
  const int64_t before = emulator::launches();
  with_gradients(in, torch::kFloat, torch::randn_like(in.x),
                 [&](const Tensor& x, const Tensor& w, const Tensor& b) {
                   return ops::layer_norm(Kernels::fused, x, {.weight = w, .bias = b, .eps = kEps});
                 });
  EXPECT_EQ(emulator::launches() - before, 1 + 2);
}

TEST(LayerNorm, TheMeanOnAGpuIsTwoLaunchesAndTwoBackInAnyOrder) {
  const NormInputs in(NormCase{3, 150, 40, 0});
  const Tensor gradient = torch::randn({3, 40});
  const OnDevice on(kEmulatedGpu);
  const int64_t before = emulator::launches();
  const auto all = [&] {
    const auto each = with_gradients(
        in, torch::kFloat, gradient, [&](const Tensor& x, const Tensor& w, const Tensor& b) {
          return ops::layer_norm_mean(Kernels::fused, x, {.weight = w, .bias = b, .eps = kEps},
                                      in.mask);
        });
    const Tensor flat = torch::cat({each[0].flatten(), each[1].flatten(), each[2], each[3]});
    return std::vector<float>(flat.const_data_ptr<float>(),
                              flat.const_data_ptr<float>() + flat.numel());
  };
  all();
  EXPECT_EQ(emulator::launches() - before, 2 + 2);
  EXPECT_TRUE(emulator::same_in_every_order(all));
}

TEST(LayerNorm, TheMeanOfBfloat16IsThatOfItsNumbers) {
  torch::manual_seed(8);
  NormInputs in(NormCase{3, 150, 40, 0});
  in.x = in.x.to(torch::kBFloat16);
  const ops::RowNorm norm{.weight = in.weight, .bias = in.bias, .eps = kEps};
  const Tensor exact =
      ops::layer_norm_mean(Kernels::reference, in.x.to(torch::kFloat), norm, in.mask);
  const OnDevice on(kEmulatedGpu);
  const Tensor found = ops::layer_norm_mean(Kernels::fused, in.x, norm, in.mask);
  EXPECT_EQ(found.scalar_type(), torch::kBFloat16);
  EXPECT_LT(error(found, exact), 0x1p-8);
}

TEST(LayerNorm, TheMeanIsTheSameForAnyNumberOfThreads) {
  torch::manual_seed(5);
  const NormInputs in(NormCase{5, 700, 12, 0});
  const Tensor gradient = torch::randn({5, 12});
  const auto results = [&](int threads) {
    at::set_num_threads(threads);
    return with_gradients(in, torch::kFloat, gradient,
                          [&](const Tensor& x, const Tensor& w, const Tensor& b) {
                            return ops::layer_norm_mean(
                                Kernels::fused, x, {.weight = w, .bias = b, .eps = kEps}, in.mask);
                          });
  };
  const RestoredThreads restored;
  const auto one = results(1), three = results(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << i;
}

}  // namespace
}  // namespace lra
