// Models that predict tokens of their inputs.
#include <gtest/gtest.h>

#include <map>

#include "lra/model/labels.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

constexpr int64_t kHiddenToken = 7;  // the vocabulary of the toy

Config config_for(Objective objective, const std::string& attention = "standard") {
  Config config = toy_config(attention);
  config.settings.training.objective = objective;
  return config;
}

Model token_model(const Config& config, const Task& task = toy_task()) {
  torch::manual_seed(4);
  Model model(task, config);
  model.to(torch::kDouble);
  model.eval();
  return model;
}

std::map<std::string, torch::Tensor> named_state(const Model& model) {
  std::map<std::string, torch::Tensor> all;
  for (const auto& item : model.named_parameters()) all[item.key()] = item.value();
  return all;
}

TEST(TokenObjective, TheHeadIsOneLayerOverTheVocabularyAtThePlacesAlone) {
  for (const Objective objective : {Objective::masked, Objective::causal}) {
    for (const int64_t inputs : {1, 2}) {
      Model model = token_model(config_for(objective), toy_task(inputs));
      const ToyBatch batch;
      const torch::Tensor tokens = batch.tokens.repeat({1, inputs, 1}),
                          mask = batch.mask.repeat({1, inputs, 1});
      const torch::Tensor all = model.forward(tokens, mask);
      ASSERT_EQ(all.sizes(), (std::vector<int64_t>{3 * inputs, 16, 7}));
      torch::Tensor labels = torch::full_like(tokens, -1);
      labels[0][inputs - 1][3] = 2;
      labels[2][0][0] = 5;
      const torch::Tensor places = label_places(labels);
      const torch::Tensor some = model.forward(tokens, mask, places);
      ASSERT_EQ(some.sizes(), (std::vector<int64_t>{2, 7}));
      EXPECT_LT((some[0] - all[inputs - 1][3]).abs().max().item<double>(), 1e-12);
      EXPECT_LT((some[1] - all[2 * inputs][0]).abs().max().item<double>(), 1e-12);
      const auto parameters = named_state(model);
      EXPECT_EQ(parameters.at("classifier.0.weight").sizes(), (std::vector<int64_t>{7, 8}));
      EXPECT_FALSE(parameters.contains("classifier.2.weight"));
      EXPECT_EQ(parameters.contains("hidden"), objective == Objective::masked);
    }
  }
}

// A hidden token is one vector, whatever stood there; and its head may be the embedding.
TEST(TokenObjective, ALearnedVectorStandsForWhatIsHidden) {
  for (const Encoding encoding : {Encoding::embedding, Encoding::linear, Encoding::real}) {
    for (const Positions positions : {Positions::learned, Positions::none}) {
      Task task = toy_task();
      task.image = true;
      Config config = config_for(Objective::masked);
      config.settings.model.encoder = encoding;
      config.settings.model.positions = positions;
      config.settings.model.head = encoding == Encoding::embedding ? Head::tied : Head::linear;
      Model model = token_model(config, task);
      const ToyBatch batch;
      torch::Tensor tokens = batch.tokens.clone();
      tokens.select(-1, 0).fill_(kHiddenToken);
      const torch::Tensor before = model.forward(tokens, batch.mask);
      EXPECT_EQ(before.size(-1), 7);
      EXPECT_TRUE(torch::isfinite(before).all().item<bool>());
      {
        const torch::NoGradGuard no_grad;
        // Not by a constant, which a norm takes away.
        torch::Tensor hidden = named_state(model).at("hidden");
        hidden.add_(torch::linspace(0, 1, hidden.size(0), hidden.options()));
      }
      const torch::Tensor after = model.forward(tokens, batch.mask);
      EXPECT_GT((after - before).abs().max().item<double>(), 1e-6) << to_string(encoding);
      // Without hidden tokens the vector is of no effect, and its gradient is 0.
      const torch::Tensor plain = model.forward(batch.tokens, batch.mask);
      plain.sum().backward();
      const torch::Tensor gradient = named_state(model).at("hidden").grad();
      EXPECT_TRUE(!gradient.defined() || gradient.eq(0).all().item<bool>()) << to_string(encoding);
    }
  }
}

TEST(TokenObjective, AClassTokenIsNoPlace) {
  Config config = config_for(Objective::masked);
  config.settings.model.pooling = Pooling::cls;
  Model model = token_model(config);
  const ToyBatch batch;
  const torch::Tensor all = model.forward(batch.tokens, batch.mask);
  ASSERT_EQ(all.sizes(), (std::vector<int64_t>{3, 16, 7}));
  const torch::Tensor places = torch::tensor({0, 15, 16}, torch::kInt64);
  EXPECT_LT(
      (model.forward(batch.tokens, batch.mask, places) - all.flatten(0, 1).index_select(0, places))
          .abs()
          .max()
          .item<double>(),
      1e-12);
}

// Attention and layers have the names and shapes of a model that classifies, all but the head.
TEST(TokenObjective, TheEncoderIsThatOfAModelThatClassifies) {
  const auto classifies = named_state(token_model(config_for(Objective::classify)));
  const auto predicts = named_state(token_model(config_for(Objective::masked)));
  EXPECT_FALSE(classifies.contains("hidden"));
  for (const auto& [name, value] : classifies) {
    if (name.starts_with("classifier.")) continue;
    ASSERT_TRUE(predicts.contains(name)) << name;
    EXPECT_EQ(predicts.at(name).sizes(), value.sizes()) << name;
  }
}

TEST(TokenObjective, SettingsAreBroughtTogetherOrRefused) {
  const auto config = [](const std::string& protocol, const std::string& task,
                         const std::string& attention, std::vector<std::string> sets) {
    return make_config(load_protocol(protocol), task, parse_attention(attention), sets, 0,
                       "float32");
  };
  const std::string masked = "training.objective=masked", causal = "training.objective=causal";
  EXPECT_EQ(config("lra-strict", "listops", "standard", {}).settings.training.masked_share, 0);
  EXPECT_EQ(config("lra-strict", "listops", "standard", {masked}).settings.training.masked_share,
            0.1);
  EXPECT_EQ(config("lra-strict", "text", "standard", {masked}).settings.training.masked_share,
            0.15);
  EXPECT_EQ(config("lra-strict", "pathx", "standard", {masked}).settings.training.masked_share,
            0.5);
  EXPECT_EQ(config("lra-strict", "image", "standard", {masked, "training.masked_share=0.25"})
                .settings.training.masked_share,
            0.25);
  EXPECT_TRUE(config("lra-strict", "text", "standard", {causal}).settings.model.causal);
  EXPECT_FALSE(config("lra-strict", "text", "standard", {masked}).settings.model.causal);
  EXPECT_NE(error_text([&] {
              config("lra-strict", "text", "nystrom", {causal});
            }).find("training.objective causal: attention nystrom has no causal form"),
            std::string::npos);
  // The head of tokens is theirs, whatever the classes are.
  EXPECT_NO_THROW(config("lra-strict", "listops", "standard", {masked, "model.head=tied"}));
  EXPECT_NE(error_text([&] {
              config("lra-strict", "image", "standard",
                     {masked, "model.head=tied", "model.encoder=linear"});
            }).find("model.head tied reads the embedding"),
            std::string::npos);
}

}  // namespace
}  // namespace lra
