// How weights outside the attention start, and the order of the head's layers.
#include <gtest/gtest.h>

#include <cmath>

#include "lra/model/classifier.h"
#include "tests/lra/model/toy_model.h"

namespace lra::starts {
namespace {

// Of a model whose layers are wide enough to tell a distribution.
torch::Tensor started(BlockKind block, Init init, const char* name) {
  Config config = toy_config("linear", 0);
  ModelOptions& o = config.settings.model;
  o.block = block;
  o.width = 100;
  o.feed_forward = 300;
  o.classifier = 200;
  o.head = Head::gelu;
  o.init = init;
  torch::manual_seed(2);
  return Model(toy_task(), config).named_parameters()[name].detach();
}

double deviation(const torch::Tensor& weight) { return weight.std().item<double>(); }

double largest(const torch::Tensor& weight) { return weight.abs().max().item<double>(); }

TEST(WeightStartTest, OfMegaIsThatOfItsRelease) {
  const auto weight = [](const char* name) { return started(BlockKind::mega, Init::mega, name); };
  for (const char* name : {"layer0_feed_forward.0.weight", "layer1_feed_forward.3.weight"}) {
    EXPECT_NEAR(deviation(weight(name)), 0.02, 0.0005) << name;
    EXPECT_GT(largest(weight(name)), 0.06) << name << " should be normal";
  }
  const double limit = std::sqrt(6.0 / (100 + 200));
  EXPECT_NEAR(largest(weight("classifier.0.weight")), limit, 0.01 * limit);
  for (const char* name : {"layer0_feed_forward.0.bias", "layer0_feed_forward.3.bias",
                           "classifier.0.bias", "classifier.2.bias"})
    EXPECT_EQ(largest(weight(name)), 0) << name;
}

TEST(WeightStartTest, OfLecunIsThatOfFlaxsDenseLayers) {
  const auto weight = [](const char* name) { return started(BlockKind::s5, Init::lecun, name); };
  const double expected = 1 / std::sqrt(100.0);
  for (const char* name : {"layer1_gate.weight", "classifier.0.weight"}) {
    EXPECT_NEAR(deviation(weight(name)), expected, 0.03 * expected) << name;
    EXPECT_LE(largest(weight(name)), 2 / 0.8796 * expected) << name << " should be cut";
    EXPECT_GT(largest(weight(name)), 2.1 * expected) << name;
  }
  for (const char* name : {"layer0_gate.bias", "classifier.0.bias", "classifier.2.bias"})
    EXPECT_EQ(largest(weight(name)), 0) << name;
}

TEST(WeightStartTest, LeavesAttentionsAsTheyAreButOfFlax) {
  const auto query = [](Init init) {
    return started(BlockKind::transformer, init, "layer0_attention.query.weight");
  };
  EXPECT_TRUE(torch::equal(query(Init::mega), query(Init::torch)));
  EXPECT_TRUE(torch::equal(query(Init::lecun), query(Init::torch)));
  EXPECT_FALSE(torch::equal(query(Init::flax), query(Init::torch)));
}

TEST(WeightStartTest, IsThatOfTheReleaseInRecipes) {
  const auto init = [](const char* protocol, const char* attention) {
    return make_config(load_protocol(protocol), "text", parse_attention(attention), {}, 0,
                       "float32")
        .settings.model.init;
  };
  EXPECT_EQ(init("mega-2022", "mega"), Init::mega);
  EXPECT_EQ(init("s5-2023", "s5"), Init::lecun);
  EXPECT_EQ(init("lru-2023", "lru"), Init::lecun);
  EXPECT_EQ(init("s4-2022", "s4d"), Init::torch);
}

ModelOptions head_options(Head head, double dropout, ops::Gelu gelu) {
  ModelOptions options;
  options.width = 16;
  options.classifier = 16;
  options.head = head;
  options.dropout = dropout;
  options.gelu = gelu;
  return options;
}

// What the last layer is given, as it passes that on.
torch::Tensor inner_rows(torch::nn::Sequential& head, const char* last, const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  auto parameters = head->named_parameters();
  parameters[std::string(last) + ".weight"].copy_(torch::eye(16));
  if (auto* bias = parameters.find(std::string(last) + ".bias")) bias->zero_();
  return head->forward(x);
}

torch::Tensor first_rows(torch::nn::Sequential& head, const torch::Tensor& x) {
  const auto parameters = head->named_parameters();
  return torch::linear(x, parameters["0.weight"], parameters["0.bias"]).detach();
}

TEST(HeadTest, OfMegaDropsBeforeItsGelu) {
  torch::manual_seed(3);
  auto head = make_classifier(head_options(Head::mega, 0.5, ops::Gelu::exact), 1, 16);
  head->train();
  const torch::Tensor x = torch::randn({200, 16}), inner = inner_rows(head, "3", x),
                      kept = torch::gelu(2 * first_rows(head, x)), dropped = inner.eq(0);
  EXPECT_NEAR(dropped.to(torch::kDouble).mean().item<double>(), 0.5, 0.05);
  EXPECT_LT((inner - kept).masked_fill(dropped, 0).abs().max().item<double>(), 1e-5);
}

TEST(HeadTest, HasTheGeluOfItsOptions) {
  for (const auto& [head, last] : {std::pair{Head::gelu, "2"}, {Head::mega, "3"}}) {
    for (const ops::Gelu gelu : {ops::Gelu::exact, ops::Gelu::tanh}) {
      torch::manual_seed(3);
      auto made = make_classifier(head_options(head, 0, gelu), 1, 16);
      const torch::Tensor x = 3 * torch::randn({200, 16}),
                          expected = torch::gelu(first_rows(made, x),
                                                 gelu == ops::Gelu::tanh ? "tanh" : "none");
      EXPECT_LT((inner_rows(made, last, x) - expected).abs().max().item<double>(), 1e-5)
          << to_string(head) << " " << to_string(gelu);
    }
  }
}

}  // namespace
}  // namespace lra::starts
