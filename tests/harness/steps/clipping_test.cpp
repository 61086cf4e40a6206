// Clipping without reading the norm changes no bit.
#include "harness/steps/clipping.h"

#include <gtest/gtest.h>

#include "harness/steps/step_sums.h"

namespace lra {
namespace {

std::vector<torch::Tensor> parameters_with_gradients(double scale) {
  torch::manual_seed(4);
  std::vector<torch::Tensor> parameters;
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{33, 17}, {5}, {3, 4, 5}, {1}, {2000}}) {
    parameters.push_back(torch::zeros(sizes).set_requires_grad(true));
    parameters.back().mutable_grad() = torch::randn(sizes) * scale;
  }
  parameters.push_back(torch::zeros({3}).set_requires_grad(true));  // without a gradient
  return parameters;
}

void expect_equal(const std::vector<torch::Tensor>& found,
                  const std::vector<torch::Tensor>& expected) {
  for (size_t i = 0; i + 1 < found.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i].grad(), expected[i].grad())) << i;
  EXPECT_FALSE(found.back().grad().defined());
}

TEST(Clipping, IsThatOfTorchToTheBit) {
  for (const double scale : {1.0, 1e-4}) {  // above the limits, and below
    auto found = parameters_with_gradients(scale), expected = parameters_with_gradients(scale);
    clip_gradient_values(found, 0.5);
    torch::nn::utils::clip_grad_value_(expected, 0.5);
    expect_equal(found, expected);
    clip_gradient_norm(found, 0.25);
    torch::nn::utils::clip_grad_norm_(expected, 0.25);
    expect_equal(found, expected);
    const auto before = parameters_with_gradients(scale);
    EXPECT_EQ(torch::equal(found[0].grad(), before[0].grad()), scale < 1);
  }
}

TEST(StepSumsTest, AreThoseOfNumbersAddedOneByOne) {
  StepSums sums(torch::kCPU);
  torch::manual_seed(1);
  double expected = 0.1, loss = 0;
  int64_t correct = 0;
  sums.set(expected, 7);
  for (int64_t i = 0; i < 50; ++i) {
    const torch::Tensor one = torch::rand({});
    expected += one.item<double>();
    sums.add(torch::stack({one, torch::tensor(3.0F)}));
  }
  sums.read(loss, correct);
  EXPECT_EQ(loss, expected);
  EXPECT_EQ(correct, 157);
}

}  // namespace
}  // namespace lra
