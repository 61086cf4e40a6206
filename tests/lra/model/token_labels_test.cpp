// Models of tasks whose labels stand at positions, and causal ones.
#include <gtest/gtest.h>

#include "lra/model/labels.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

Task labelled_task() {
  Task task = toy_task();
  task.position_labels = true;
  task.classes = task.vocabulary;
  return task;
}

Model made(const Config& config, const Task& task = labelled_task()) {
  torch::manual_seed(4);
  Model model(task, config);
  model.to(torch::kDouble);
  model.eval();
  return model;
}

TEST(LabelPlaces, AreThoseOfTheLabelsInOrder) {
  const torch::Tensor labels = torch::tensor({{-1, 3, -1}, {0, -1, 5}}, torch::kInt64);
  const torch::Tensor places = label_places(labels);
  EXPECT_TRUE(torch::equal(places, torch::tensor({1, 3, 5}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(labels_at(labels, places), torch::tensor({3, 0, 5}, torch::kInt64)));
  const torch::Tensor of_samples = torch::tensor({2, 1}, torch::kInt64);
  EXPECT_FALSE(label_places(of_samples).defined());
  EXPECT_TRUE(torch::equal(labels_at(of_samples, {}), of_samples));
}

TEST(TokenLabels, LogitsAtPlacesAreThoseOfAllPositions) {
  for (const Head head : {Head::tied, Head::linear, Head::mlp}) {
    for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post}) {
      Config config = toy_config();
      config.settings.model.head = head;
      config.settings.model.norm = norm;
      Model model = made(config);
      const ToyBatch batch;
      const torch::Tensor all = model.forward(batch.tokens, batch.mask);
      ASSERT_EQ(all.sizes(), (std::vector<int64_t>{3, 16, 7}));
      const torch::Tensor places = torch::tensor({2, 17, 20, 32}, torch::kInt64);
      const torch::Tensor some = model.forward(batch.tokens, batch.mask, places);
      EXPECT_LT((some - all.flatten(0, 1).index_select(0, places)).abs().max().item<double>(),
                1e-12);
    }
  }
}

TEST(TokenLabels, ATiedHeadReadsTheEmbedding) {
  Config config = toy_config();
  config.settings.model.head = Head::tied;
  Model model = made(config);
  for (const auto& parameter : model.named_parameters())
    EXPECT_EQ(parameter.key().find("classifier"), std::string::npos) << parameter.key();
  const ToyBatch batch;
  const torch::Tensor before = model.forward(batch.tokens, batch.mask);
  // No token is id 0, so that its vector is a class alone.
  {
    const torch::NoGradGuard no_grad;
    model.named_parameters()["tokens.weight"][0].mul_(2);
  }
  const torch::Tensor after = model.forward(batch.tokens, batch.mask);
  EXPECT_LT((after.select(-1, 0) - 2 * before.select(-1, 0)).abs().max().item<double>(), 1e-12);
  EXPECT_TRUE(torch::equal(after.slice(-1, 1), before.slice(-1, 1)));
}

TEST(CausalModel, NoTokenReachesAnEarlierPosition) {
  for (const bool causal : {true, false}) {
    Config config = toy_config();
    config.settings.model.causal = causal;
    Model model = made(config);
    const ToyBatch batch;
    torch::Tensor other = batch.tokens.clone();
    other.select(-1, 9).copy_(other.select(-1, 9).remainder(6) + 1);
    const torch::Tensor change =
        (model.forward(other, batch.mask) - model.forward(batch.tokens, batch.mask))[0].abs();
    EXPECT_EQ(change.slice(0, 0, 9).max().item<double>() > 1e-9, !causal);
    EXPECT_GT(change.slice(0, 9).max().item<double>(), 1e-9);
  }
}

TEST(CausalModel, IsRefusedWhereTheAttentionCannotBe) {
  Config config = toy_config("nystrom");
  config.settings.model.causal = true;
  const std::string message = error_text<UsageError>([&] { made(config); });
  EXPECT_NE(message.find("attention nystrom has no causal form"), std::string::npos) << message;
  EXPECT_NE(message.find("sparse, standard"), std::string::npos) << message;
}

TEST(TokenLabels, SettingsThatDoNotFitAreRefused) {
  const auto config = [](const std::string& protocol, const std::string& task,
                         const std::string& set) {
    return make_config(load_protocol(protocol), task, {.name = "standard"}, {set}, 0, "float32");
  };
  EXPECT_NO_THROW(config("recall", "mqar", "model.causal=false"));
  EXPECT_THROW(config("recall", "mqar", "model.pooling=cls"), UsageError);
  EXPECT_THROW(config("lra-strict", "listops", "model.head=tied"), UsageError);
  EXPECT_NO_THROW(config("lra-strict", "listops", "model.causal=true"));
  EXPECT_THROW(config("tay2020", "listops", "model.causal=true"), UsageError) << "pooling cls";
}

TEST(FeedForward, OfWidth0IsNone) {
  Config config = toy_config();
  config.settings.model.feed_forward = 0;
  Model model = made(config, toy_task());
  for (const auto& parameter : model.named_parameters())
    EXPECT_EQ(parameter.key().find("feed_forward"), std::string::npos) << parameter.key();
  const ToyBatch batch;
  EXPECT_TRUE(torch::isfinite(model.forward(batch.tokens, batch.mask)).all().item<bool>());
}

}  // namespace
}  // namespace lra
