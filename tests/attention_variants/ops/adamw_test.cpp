// The optimiser against LibTorch's own AdamW.
#include "attention_variants/ops/adamw.h"

#include <gtest/gtest.h>

#include <vector>

namespace lra {
namespace {

std::vector<torch::Tensor> parameters() {
  torch::manual_seed(3);
  return {torch::randn({7, 5}), torch::randn({1}), torch::randn({300, 4}).t(), torch::randn({33})};
}

TEST(FusedAdamWTest, TakesTheStepsOfLibTorch) {
  auto given = parameters(), expected = parameters();
  const auto options =
      torch::optim::AdamWOptions(1e-2).betas({0.9, 0.98}).eps(1e-6).weight_decay(0.1);
  ops::FusedAdamW fused(given, options);
  torch::optim::AdamW plain(expected, options);
  for (int step = 0; step < 25; ++step) {
    for (size_t i = 0; i < given.size(); ++i) {
      // One parameter takes part from step 3 on alone.
      const bool takes_part = i != 3 || step >= 3;
      const torch::Tensor gradient = torch::randn(given[i].sizes()) * (1 + step % 4);
      given[i].mutable_grad() = takes_part ? gradient : torch::Tensor();
      expected[i].mutable_grad() = takes_part ? gradient.clone() : torch::Tensor();
    }
    for (torch::optim::Optimizer* optimizer : {static_cast<torch::optim::Optimizer*>(&fused),
                                               static_cast<torch::optim::Optimizer*>(&plain)}) {
      auto& group =
          static_cast<torch::optim::AdamWOptions&>(optimizer->param_groups()[0].options());
      group.lr(1e-2 / (1 + step));
      optimizer->step();
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_TRUE(torch::allclose(given[i], expected[i], 1e-5, 1e-6)) << i;
    EXPECT_GT((given[i] - parameters()[i]).abs().max().item<float>(), 1e-3) << i;
    const auto state = [&](torch::optim::AdamW& of, const torch::Tensor& p) {
      return static_cast<const torch::optim::AdamWParamState&>(
          *of.state().at(p.unsafeGetTensorImpl()));
    };
    const auto a = state(fused, given[i]), b = state(plain, expected[i]);
    EXPECT_EQ(a.step(), b.step()) << i;
    EXPECT_TRUE(torch::allclose(a.exp_avg(), b.exp_avg(), 1e-5, 1e-6)) << i;
    EXPECT_TRUE(torch::allclose(a.exp_avg_sq(), b.exp_avg_sq(), 1e-5, 1e-6)) << i;
  }
}

TEST(FusedAdamWTest, RefusesWhatItHasNot) {
  ops::FusedAdamW optimizer({torch::zeros({2}).requires_grad_()},
                            torch::optim::AdamWOptions(1e-3).amsgrad(true));
  EXPECT_THROW(optimizer.step(), c10::Error);
}

}  // namespace
}  // namespace lra
