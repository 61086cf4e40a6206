// The loss of a training step and its gradient, by LibTorch's operators, on a CPU and by an
// emulated kernel.
#include "attention_variants/ops/cross_entropy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"
#include "tests/cuda_emulator/testing.h"

namespace lra {
namespace {

using ops::Kernels;
using torch::Tensor;

struct LossCase {
  int64_t rows, classes;
  double scale = 1;  // of the logits
};
void PrintTo(const LossCase& c, std::ostream* to) {
  *to << fmt::format("{}x{}, scale {}", c.rows, c.classes, c.scale);
}

struct LossInputs {
  Tensor logits, labels;
  explicit LossInputs(const LossCase& c)
      : logits(torch::randn({c.rows, c.classes}) * c.scale),
        labels(torch::randint(c.classes, {c.rows}, torch::kInt64)) {}

  Tensor loss(const Tensor& of) const {
    return torch::nn::functional::cross_entropy(
        of, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  double correct() const { return (logits.argmax(-1) == labels).sum().item<double>(); }
};

constexpr int64_t kCount = 7;

class CrossEntropyParity : public testing::TestWithParam<LossCase> {
 protected:
  void SetUp() override { torch::manual_seed(6); }
};

// To the bit: what a CPU trains by where there are few classes.
TEST_P(CrossEntropyParity, OfLibTorchIsItsLossAndGradient) {
  const LossInputs in(GetParam());
  const bool few = GetParam().classes < 64;
  const ops::CrossEntropy found =
      ops::cross_entropy(few ? Kernels::fused : Kernels::reference, in.logits, in.labels, kCount);
  const Tensor leaf = in.logits.clone().requires_grad_(), loss = in.loss(leaf);
  (loss / static_cast<double>(kCount)).backward();
  EXPECT_TRUE(torch::equal(found.gradient, leaf.grad()));
  EXPECT_EQ(found.sums[0].item<double>(), loss.item<double>());
  EXPECT_EQ(found.sums[1].item<double>(), in.correct());
}

void expect_that_of_float64(const LossInputs& in) {
  const Tensor exact = in.logits.to(torch::kDouble).requires_grad_(), loss = in.loss(exact);
  (loss / static_cast<double>(kCount)).backward();
  const ops::CrossEntropy found = ops::cross_entropy(Kernels::fused, in.logits, in.labels, kCount);
  EXPECT_LT(error(found.sums[0], loss), 1e-6);
  EXPECT_LT(error(found.gradient, exact.grad()), 1e-6);
  EXPECT_EQ(found.sums[1].item<double>(), in.correct());
}

TEST_P(CrossEntropyParity, OnACpuIsThatOfFloat64) {
  expect_that_of_float64(LossInputs(GetParam()));
}

TEST_P(CrossEntropyParity, OfTheKernelIsThatOfFloat64) {
  const LossInputs in(GetParam());
  const OnDevice on(kEmulatedGpu);
  const int64_t before = emulator::launches();
  expect_that_of_float64(in);
  EXPECT_EQ(emulator::launches() - before, 1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CrossEntropyParity,
                         testing::Values(LossCase{1, 1}, LossCase{1, 2}, LossCase{32, 10},
                                         LossCase{33, 2, 1e4}, LossCase{100, 33, 20},
                                         LossCase{3, 1000}, LossCase{5, 67, 1e4},
                                         LossCase{300, 64}));

// On a CPU, with as many classes as its own kernel takes.
class CrossEntropyOnCpu : public testing::Test {
 protected:
  Tensor logits = torch::randn({4, 100});
  Tensor labels = torch::tensor({0, 1, 99, 0}, torch::kInt64);

  ops::CrossEntropy of(Kernels kernels) const {
    return ops::cross_entropy(kernels, logits, labels, 4);
  }
};

TEST_F(CrossEntropyOnCpu, OfEqualLogitsTheFirstIsPredicted) {
  logits.fill_(2);
  EXPECT_EQ(of(Kernels::fused).sums[1].item<double>(), 2);
}

// As of LibTorch: NaN is greatest, and what has no loss is not a number.
TEST_F(CrossEntropyOnCpu, LogitsThatAreNotFiniteAreAsLibTorchs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float odd : {std::nanf(""), kInfinity, -kInfinity}) {
    for (const int64_t at : {0, 1, 99}) {
      logits.normal_();
      logits.select(1, at).fill_(odd);
      const ops::CrossEntropy own = of(Kernels::fused), torchs = of(Kernels::reference);
      EXPECT_TRUE(torch::equal(own.gradient.isnan(), torchs.gradient.isnan())) << odd << at;
      EXPECT_EQ(own.sums[0].isnan().item<bool>(), torchs.sums[0].isnan().item<bool>());
      EXPECT_EQ(own.sums[0].isinf().item<bool>(), torchs.sums[0].isinf().item<bool>());
      EXPECT_EQ(own.sums[1].item<double>(), torchs.sums[1].item<double>()) << odd << at;
    }
  }
  logits.fill_(-kInfinity);
  EXPECT_TRUE(of(Kernels::fused).gradient.isnan().all().item<bool>());
}

TEST_F(CrossEntropyOnCpu, AnUnknownLabelIsRefused) {
  for (const int64_t wrong : {-100, 100}) {
    labels[2] = wrong;
    EXPECT_THROW(of(Kernels::fused), c10::Error) << wrong;
  }
}

TEST_F(CrossEntropyOnCpu, AnyNumberOfThreadsGivesTheSameResult) {
  logits = torch::randn({1100, 70});
  labels = torch::randint(70, {1100}, torch::kInt64);
  const RestoredThreads restored;
  at::set_num_threads(1);
  const ops::CrossEntropy one = of(Kernels::fused);
  at::set_num_threads(4);
  const ops::CrossEntropy four = of(Kernels::fused);
  EXPECT_TRUE(torch::equal(one.sums, four.sums));
  EXPECT_TRUE(torch::equal(one.gradient, four.gradient));
}

// The first of equal logits is the prediction.
TEST(CrossEntropyKernel, OfEqualLogitsTheFirstIsPredicted) {
  const Tensor logits = torch::zeros({4, 40}), labels = torch::tensor({0, 1, 39, 0}, torch::kInt64);
  const OnDevice on(kEmulatedGpu);
  EXPECT_EQ(ops::cross_entropy(Kernels::fused, logits, labels, 4).sums[1].item<double>(), 2);
}

TEST(CrossEntropyKernel, AnUnknownLabelMakesTheLossNotANumber) {
  const Tensor logits = torch::randn({3, 5});
  const OnDevice on(kEmulatedGpu);
  for (const int64_t wrong : {-1, 5}) {
    const Tensor labels = torch::tensor({int64_t{0}, wrong, int64_t{4}});
    const ops::CrossEntropy found = ops::cross_entropy(Kernels::fused, logits, labels, 3);
    EXPECT_TRUE(found.sums[0].isnan().item<bool>());
    EXPECT_TRUE(torch::equal(found.gradient.isnan().all(1), torch::tensor({false, true, false})));
  }
}

TEST(CrossEntropyKernel, IsTheSameInEveryOrder) {
  const LossInputs in(LossCase{70, 12});
  const OnDevice on(kEmulatedGpu);
  EXPECT_TRUE(emulator::same_in_every_order([&] {
    const ops::CrossEntropy found =
        ops::cross_entropy(Kernels::fused, in.logits, in.labels, kCount);
    const Tensor all = torch::cat({found.sums, found.gradient.flatten()});
    return std::vector<float>(all.const_data_ptr<float>(),
                              all.const_data_ptr<float>() + all.numel());
  }));
}

TEST(CrossEntropyKernel, MoreLogitsThanABlockTakesAreLibTorchs) {
  const LossInputs in(LossCase{80, 1000});
  const OnDevice on(kEmulatedGpu);
  const int64_t before = emulator::launches();
  ops::cross_entropy(Kernels::fused, in.logits, in.labels, kCount);
  EXPECT_EQ(emulator::launches(), before);
}

}  // namespace
}  // namespace lra
