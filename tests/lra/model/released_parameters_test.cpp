// What models of published protocols hold: the parameters of released forms, and no more than LRA's
// rule allows but where it is written down.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "attention_variants/base/files.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/protocols.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

// ---- The 10 % parameter rule of LRA's README (D4)

int64_t parameters_of(const Protocol& protocol, const std::string& task_name,
                      const std::string& attention) {
  const Config config = make_config(protocol, task_name, {.name = attention}, {}, 0, "float32");
  return Model(task(task_name, config.settings.input.reading()), config).parameter_count();
}

// Of standard attention in the sizes that the variant has.
int64_t parameters_of_standard(const Protocol& protocol, const std::string& task_name,
                               const std::string& attention) {
  Config config = make_config(protocol, task_name, {.name = attention}, {}, 0, "float32");
  config.attention = {.name = "standard"};
  config.attention_options = attention_entry("standard").default_options;
  return Model(task(task_name, config.settings.input.reading()), config).parameter_count();
}

// Those over it on images, with their parameters and standard's: written down, so that a new one
// has to be.
TEST(ParameterRuleTest, WhoeverHasMoreThanATenthMoreIsWrittenDown) {
  using Counts = std::map<std::string, std::pair<int64_t, int64_t>>;
  const std::map<std::string, Counts> known = {{"lra-strict",
                                                {{"linformer", {1'207'178, 158'602}},
                                                 {"longconv", {387'466, 158'602}},
                                                 {"lru", {191'754, 158'602}},
                                                 {"mega", {221'192, 158'602}},
                                                 {"synthesizer", {404'106, 158'602}}}},
                                               {"nystromformer2021",
                                                {{"linformer", {682'890, 158'602}},
                                                 {"longconv", {387'466, 158'602}},
                                                 {"lru", {191'754, 158'602}},
                                                 {"mega", {221'192, 158'602}},
                                                 {"synthesizer", {404'106, 158'602}}}},
                                               {"skyformer2021",
                                                {{"longconv", {387'466, 158'602}},
                                                 {"lru", {191'754, 158'602}},
                                                 {"mega", {221'192, 158'602}},
                                                 {"synthesizer", {404'106, 158'602}}}},
                                               {"tay2020",
                                                {{"longconv", {478'090, 248'458}},
                                                 {"lru", {314'506, 248'458}},
                                                 {"mega", {325'323, 248'458}},
                                                 {"synthesizer", {8'653'458, 248'458}}}}};
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    if (protocol.regime != kFirstRegime || !protocol.tasks.contains("image")) continue;
    Counts found;
    for (const AttentionEntry* entry : attention_entries()) {
      if (!is_shipped(entry->info.name)) continue;
      const std::string& variant = entry->info.name;
      const int64_t all = parameters_of(protocol, "image", variant),
                    standard = parameters_of_standard(protocol, "image", variant);
      if (static_cast<double>(all) > 1.1 * static_cast<double>(standard))
        found[variant] = {all, standard};
    }
    EXPECT_EQ(found, known.at(with_models_of(name))) << name;
  }
}

TEST(ParameterRuleTest, LinformerOfTheStrictProtocolIsElevenTimesStandardOnListOps) {
  const Protocol strict = load_protocol("lra-strict");
  EXPECT_EQ(parameters_of(strict, "listops", "linformer"), 2'305'930);
  EXPECT_EQ(parameters_of(strict, "listops", "standard"), 208'778);
}

// ---- Parameters of released forms

std::vector<std::string> parameter_names(const std::string& protocol,
                                         const std::string& attention) {
  const Config config =
      make_config(load_protocol(protocol), "image", parse_attention(attention), {}, 0, "float32");
  torch::manual_seed(0);
  std::vector<std::string> names;
  const Model model(task("image"), config);
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  return names;
}

size_t holding(const std::vector<std::string>& names, const std::string& part) {
  return static_cast<size_t>(std::ranges::count_if(
      names, [&](const auto& name) { return name.find(part) != std::string::npos; }));
}

// Every parameter and buffer of the first attention, and how many numbers the model has: of all
// variants, on images. Written down in tests/fixtures/released-parameters.json.
TEST(ReleasedFormTest, ParametersAreThoseWrittenDown) {
  json found = json::object();
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    if (protocol.regime != kFirstRegime || !protocol.tasks.contains("image")) continue;
    for (const AttentionEntry* entry : attention_entries()) {
      if (!is_shipped(entry->info.name)) continue;
      const Config config =
          make_config(protocol, "image", {.name = entry->info.name}, {}, 0, "float32");
      const Model model(task("image"), config);
      json& of_variant = found[name][entry->info.name];
      of_variant["parameters"] = model.parameter_count();
      const auto list = [&](const char* kind, const auto& items) {
        for (const auto& item : items) {
          if (item.key().find("layer0_attention.") != 0) continue;
          of_variant[kind][item.key().substr(17)] = item.value().sizes().vec();
        }
      };
      list("trained", model.named_parameters());
      list("buffers", model.named_buffers());
    }
  }
  json written = read_json(LRA_SOURCE_DIR "/tests/fixtures/released-parameters.json");
  for (const auto& [name, models] : found.items()) {
    if (with_models_of(name) != name) written[name] = written.at(with_models_of(name));
  }
  EXPECT_EQ(differences(written, found), std::vector<std::string>{});
}

TEST(ReleasedFormTest, HasTheReleasesParameters) {
  const auto reformer = parameter_names("tay2020", "reformer");
  EXPECT_EQ(holding(reformer, "attention.output"), 0u);
  EXPECT_EQ(holding(reformer, "attention.query_key.weight"), 4u);
  EXPECT_EQ(holding(parameter_names("tay2020", "sinkhorn"), "sort"), 0u);
  EXPECT_EQ(holding(parameter_names("tay2020", "standard"), "attention.query.bias"), 0u);
  EXPECT_EQ(holding(parameter_names("lra-strict", "standard"), "attention.query.bias"), 2u);
  EXPECT_EQ(holding(parameter_names("skyformer2021", "nystrom"), "conv"), 0u);
  EXPECT_GT(holding(parameter_names("nystromformer2021", "nystrom"), "conv"), 0u);
  const auto reformer_n = parameter_names("nystromformer2021", "reformer");
  EXPECT_EQ(holding(reformer_n, "query_key.bias") + holding(reformer_n, "value.bias"), 0u);
  EXPECT_EQ(holding(reformer_n, "attention.output.bias"), 2u);
}

TEST(SharedTableTest, OneOfAModelIsTrainedOnceAndUsedByAllLayers) {
  const auto names = parameter_names("nystromformer2021", "linformer");
  EXPECT_EQ(holding(names, "projection.key"), 1u);
  Config config = toy_config("linformer[projected_length=4,tables=model,sharing=key_value]", 0);
  torch::manual_seed(2);
  Model model(toy_task(), config);
  model.eval();
  const ToyBatch batch;
  model.forward(batch.tokens, batch.mask).sum().backward();
  const torch::Tensor both =
      model.named_parameters()["layer0_attention.projection.key"].grad().clone();
  config.settings.model.layers = 1;
  EXPECT_GT(both.abs().max().item<double>(), 0);
  EXPECT_EQ(model.attentions().size(), 2u);
}

TEST(UntrainedTableTest, StandsInTheCheckpointAndStays) {
  const auto names = parameter_names("skyformer2021", "linformer");
  EXPECT_EQ(holding(names, "projection"), 0u);
  const Config config = toy_config("linformer[projected_length=4,trained=false]", 0);
  torch::manual_seed(2);
  Model model(toy_task(), config);
  EXPECT_TRUE(model.named_buffers().contains("layer0_attention.projection.key"));
  EXPECT_TRUE(model.named_buffers().contains("layer1_attention.projection.key"));
}

}  // namespace
}  // namespace lra
