#include "lra/model/model.h"

#include <gtest/gtest.h>

#include "lra/model/layer_flops.h"
#include "tests/lra/model/toy_model.h"

namespace lra {
namespace {

class ModelTest : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(1); }
  static torch::Tensor run(const Config& config, const torch::Tensor& tokens,
                           const torch::Tensor& mask) {
    torch::manual_seed(2);
    Model model(toy_task(tokens.size(1)), config);
    model.eval();
    const torch::NoGradGuard no_grad;
    return model.forward(tokens, mask);
  }
};

TEST_F(ModelTest, WhatStandsAtPaddedPositionsChangesNothing) {
  for (const char* attention : {"standard", "standard[implementation=materialized]",
                                "nystrom[num_landmarks=4,conv_kernel_size=3]"}) {
    const ToyBatch batch;
    const auto other = torch::where(batch.mask, batch.tokens, torch::full_like(batch.tokens, 6));
    ASSERT_FALSE(torch::equal(other, batch.tokens));
    const auto a = run(toy_config(attention), batch.tokens, batch.mask),
               b = run(toy_config(attention), other, batch.mask);
    EXPECT_LT((a - b).abs().max().item<double>(), 1e-6) << attention;
  }
}

// By hand, of the toy: 2 layers, D = 8, 2 heads of 4, feed-forward 16, classifier 12, 3 classes. A
// layer takes 4 B H N² d for the attention, 2 · 4 D² a token for its projections and 2 · 2 · 8 · 16
// a token for the feed-forward block; the head takes 2 (8 · 12 + 12 · 3) a sample.
TEST_F(ModelTest, CountsItsOperations) {
  const auto flops = [](const Config& config, int64_t inputs, int64_t batch, int64_t length) {
    return Model(toy_task(inputs), config).flops(batch, length);
  };
  const auto layers = [](int64_t rows, int64_t length) {
    return 2 * (4 * rows * 2 * length * length * 4 + rows * length * (2 * 4 * 64 + 4 * 8 * 16));
  };
  ASSERT_EQ(layers(3, 10), 80640);
  EXPECT_EQ(flops(toy_config(), 1, 3, 10), 80640 + 3 * 264);
  // Two inputs are twice the rows of the encoder, and [x1, x2, x1*x2, x1-x2] for the head.
  EXPECT_EQ(flops(toy_config(), 2, 3, 10), layers(6, 10) + 3 * 2 * (32 * 12 + 12 * 3));
  Config words = toy_config();
  words.settings.training.objective = Objective::causal;
  const Task task = toy_task(1);
  for (const Head head : {Head::linear, Head::tied}) {
    words.settings.model.head = head;
    EXPECT_EQ(Model(task, words).flops(3, 10, 5), 80640 + 5 * 2 * 8 * task.vocabulary);
  }
  Config cls = toy_config();
  cls.settings.model.pooling = Pooling::cls;
  EXPECT_EQ(flops(cls, 1, 3, 10), layers(3, 11) + 3 * 264) << "the class token is a position";
  // Its layer called value is a part of it.
  const Model mega(toy_task(1), toy_config("mega"));
  EXPECT_EQ(layer_flops(*mega.attentions().front(), 3, 10),
            mega.attentions().front()->flops(3, 10));
  EXPECT_EQ(flops(toy_config("nystrom[num_landmarks=4,pinv=exact]"), 1, 3, 10), -1)
      << "what a singular value decomposition takes is not known beforehand";
}

TEST_F(ModelTest, TheMeanOverRealTokensDiffersFromTheReleasedOneByTheirShare) {
  // With one real token of 16 the pooled vector is 16 times the released one; the classifier's
  // first layer shows it.
  Config real = toy_config(), padded = toy_config();
  padded.settings.model.mean_over = MeanOver::length;
  const ToyBatch batch;
  torch::manual_seed(2);
  Model a(toy_task(1), real);
  torch::manual_seed(2);
  Model b(toy_task(1), padded);
  for (Model* model : {&a, &b}) {
    model->eval();
    for (auto& item : model->named_parameters()) {
      const torch::NoGradGuard no_grad;
      if (item.key().starts_with("classifier") && item.key().ends_with("bias"))
        item.value().zero_();
    }
  }
  const torch::NoGradGuard no_grad;
  const auto x = a.forward(batch.tokens, batch.mask), y = b.forward(batch.tokens, batch.mask);
  // ReLU and linear layers without bias are homogeneous: the logits scale alike.
  EXPECT_LT((x[0] - y[0]).abs().max().item<double>(), 1e-6);
  EXPECT_LT((x[1] - y[1] * (16.0 / 9)).abs().max().item<double>(), 1e-6);
  EXPECT_LT((x[2] - y[2] * 16.0).abs().max().item<double>(), 1e-6);
}

TEST_F(ModelTest, HasTheParametersOfTheRecipe) {
  // ListOps under the recipe: 16 and 2048 embeddings of 64; a layer has 4 projections of 64 x 64 +
  // 64, a feed-forward 64-128-64 and two norms; a last norm; the head 64-128-10.
  Config config = toy_config();
  config.settings = Settings{};
  Task task = toy_task(1);
  task.vocabulary = 16;
  task.classes = 10;
  const int64_t layer = 4 * (64 * 64 + 64) + (64 * 128 + 128 + 128 * 64 + 64) + 2 * 128;
  EXPECT_EQ(Model(task, config).parameter_count(),
            64 * (16 + 2048) + 2 * layer + 128 + (64 * 128 + 128) + (128 * 10 + 10));
}

TEST_F(ModelTest, TwoInputsShareTheEncoder) {
  torch::manual_seed(3);
  Model model(toy_task(2), toy_config());
  model.eval();
  const torch::NoGradGuard no_grad;
  const auto tokens = torch::randint(1, 7, {2, 2, 16}, torch::kInt64);
  const auto mask = torch::ones_like(tokens, torch::kBool);
  const auto out = model.forward(tokens, mask);
  EXPECT_EQ(out.sizes(), torch::IntArrayRef({2, 3}));
  const auto swapped = model.forward(tokens.flip(1), mask);
  EXPECT_GT((out - swapped).abs().max().item<double>(), 1e-6) << "the head sees which is first";
}

TEST_F(ModelTest, AllPaddingGivesNumbers) {
  const auto tokens = torch::zeros({1, 1, 16}, torch::kInt64);
  const auto out =
      run(toy_config("nystrom[num_landmarks=4]"), tokens, torch::zeros_like(tokens, torch::kBool));
  EXPECT_TRUE(out.isfinite().all().item<bool>());
}

TEST_F(ModelTest, RefusesWrongShapes) {
  Model model(toy_task(1), toy_config());
  const auto tokens = torch::zeros({2, 16}, torch::kInt64);
  EXPECT_THROW(model.forward(tokens, tokens.to(torch::kBool)), c10::Error);
}

}  // namespace
}  // namespace lra
