// Traps that published code fell into, each as a test that fails where ours does.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "lra/model/reach.h"
#include "tests/lra/model/toy_model.h"

namespace lra {
namespace {

// ---- A position that reaches nothing
// -------------------------------------------------------------

// Registered by another test of this program.
bool is_of_a_test(const AttentionEntry& entry) {
  return !std::filesystem::exists(LRA_SOURCE_DIR "/attention_variants/variants/" + entry.info.name +
                                  ".cpp");
}

struct ReachCase {
  std::string protocol, task;
};

class Reach : public testing::TestWithParam<ReachCase> {};

std::vector<ReachCase> reach_cases() {
  std::vector<ReachCase> cases;
  for (const std::string& protocol : protocol_names()) {
    const Protocol loaded = load_protocol(protocol);
    for (const auto& [task, settings] : loaded.tasks.items()) {
      if (task != "pathx")
        cases.push_back({protocol, task});  // pathfinder's sizes, 16 times as long
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Protocols, Reach, testing::ValuesIn(reach_cases()), [](const auto& given) {
  std::string name = given.param.protocol + "_" + given.param.task;
  std::ranges::replace(name, '-', '_');
  return name;
});

// Five blocks of the largest block there is, 128. Of the released local attention a class token
// sees its own group alone, every (L/b)-th position.
TEST_P(Reach, EveryVariantsAnswerDependsOnTheMiddleAndOnTheEnd) {
  const auto& [protocol_name, task_name] = GetParam();
  const Protocol protocol = load_protocol(protocol_name);
  size_t tried = 0;
  for (const AttentionEntry* entry : attention_entries()) {
    if (is_of_a_test(*entry)) continue;
    const Config config =
        make_config(protocol, task_name, {.name = entry->info.name}, {}, 1, "float32");
    constexpr int64_t kLength = 640;
    std::vector<int64_t> positions = {kLength / 2, kLength - 1};
    // Its logits are squares of unnormalised vectors times √d, so that a token sees little but
    // itself, and row 0 holds positions 0 to H - 1 of head 0.
    if (config.attention.name == "reformer_tay2020") positions = {1, 3};
    if (config.attention.name == "local_tay2020" &&
        config.settings.model.pooling != Pooling::mean) {
      const int64_t block = config.attention_options["block"],
                    before = config.settings.model.pooling == Pooling::cls ? 1 : 0,
                    groups = (kLength + before) / block + 1;
      positions = {groups * (block / 2) - before, groups * (kLength / groups) - before};
    }
    for (const TokenReach& found : token_reach(task(task_name), config, kLength, positions)) {
      EXPECT_GT(found.change, 1e-6) << config.attention.name << ", token " << found.position;
    }
    ++tried;
  }
  EXPECT_GE(tried, 15u);
}

// The trap itself: before LRA's release opened it, a class token at position 0 of the causal
// pattern saw itself alone.
TEST(ReachTest, FindsAClassTokenThatSeesNothing) {
  Config config =
      make_config(load_protocol("tay2020"), "listops", parse_attention("sparse[cls=token]"),
                  {"model.layers=2", "model.width=16", "model.head_dim=2"}, 1, "float32");
  for (const TokenReach& found : token_reach(task("listops"), config, 300, {150, 299}))
    EXPECT_EQ(found.change, 0) << found.position;
}

// ---- The 10 % parameter rule of LRA's README
// -----------------------------------------------------

// Those over it, with their share of standard's parameters: written down, so that a new one has to
// be.
TEST(ParameterRuleTest, WhoeverHasMoreThanATenthMoreIsWrittenDown) {
  const std::map<std::string, std::vector<std::string>> known = {
      {"lra-strict", {"linformer", "synthesizer"}},
      {"nystromformer2021", {"linformer", "synthesizer"}},
      {"skyformer2021", {"synthesizer"}},
      {"tay2020", {"synthesizer_tay2020"}}};
  for (const std::string& name : protocol_names()) {
    const Protocol protocol = load_protocol(name);
    std::vector<std::string> found;
    for (const AttentionEntry* entry : attention_entries()) {
      if (is_of_a_test(*entry)) continue;
      const Config own =
          make_config(protocol, "image", {.name = entry->info.name}, {}, 0, "float32");
      Config standard = own;
      standard.attention = {.name = "standard"};
      standard.attention_options = attention_entry("standard").default_options;
      const int64_t all = Model(task("image"), own).parameter_count(),
                    of_standard = Model(task("image"), standard).parameter_count();
      if (static_cast<double>(all) > 1.1 * static_cast<double>(of_standard))
        found.push_back(own.attention.name);
    }
    EXPECT_EQ(found, known.at(name)) << name;
  }
}

// ---- Pooling and padding
// -------------------------------------------------------------------------

torch::Tensor toy_logits(const Config& config, const torch::Tensor& tokens,
                         const torch::Tensor& mask) {
  torch::manual_seed(2);
  Model model(toy_task(), config);
  model.eval();
  const torch::NoGradGuard no_grad;
  return model.forward(tokens, mask);
}

TEST(MeanOverTest, TheThreeDifferOnAPaddedSampleAlone) {
  const ToyBatch batch;
  std::map<MeanOver, torch::Tensor> logits;
  for (const MeanOver over : all_values<MeanOver>()) {
    Config config = toy_config("standard", 0);
    config.settings.model.mean_over = over;
    logits[over] = toy_logits(config, batch.tokens, batch.mask);
  }
  const auto differ = [&](MeanOver a, MeanOver b, int64_t sample) {
    return (logits[a] - logits[b])[sample].abs().max().item<double>();
  };
  for (const auto& [a, b] : {std::pair{MeanOver::real, MeanOver::length},
                             {MeanOver::real, MeanOver::all},
                             {MeanOver::length, MeanOver::all}}) {
    EXPECT_LT(differ(a, b, 0), 1e-6) << "a whole sample";
    EXPECT_GT(differ(a, b, 1), 1e-4) << to_string(a) << " " << to_string(b);
  }
}

TEST(MaskNoneTest, PaddingIsATokenAndTheModelSaysSo) {
  Config config = toy_config("standard", 0);
  torch::manual_seed(2);
  EXPECT_TRUE(Model(toy_task(), config).length_invariant());
  config.settings.input.mask = InputMask::none;
  EXPECT_FALSE(Model(toy_task(), config).length_invariant());
  const torch::Tensor tokens = torch::randint(1, 7, {1, 1, 12}, torch::kLong),
                      longer = at::constant_pad_nd(tokens, {0, 4});
  const auto all = [](const torch::Tensor& t) { return torch::ones_like(t, torch::kBool); };
  EXPECT_GT((toy_logits(config, tokens, all(tokens)) - toy_logits(config, longer, all(longer)))
                .abs()
                .max()
                .item<double>(),
            1e-4);
}

// ---- Parameters of released forms
// -----------------------------------------------------------------

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

// ---- Draws that each pass makes anew
// ---------------------------------------------------------------

TEST(RedrawTest, EvaluationsOfOneBatchDifferAndACopyOfTheStateRepeatsThem) {
  const ToyBatch batch;
  for (const std::string variant :
       {"performer[num_features=4,redraw=forward]", "skyformer[num_features=4,redraw=forward]",
        "reformer[chunk_length=4,redraw=forward]"}) {
    const Config config = toy_config(variant, 0);
    const auto make = [&] {
      torch::manual_seed(2);
      auto model = std::make_unique<Model>(toy_task(), config);
      model->eval();
      return model;
    };
    const torch::NoGradGuard no_grad;
    const auto all = torch::ones_like(batch.mask);
    const auto model = make(), again = make();
    const torch::Tensor first = model->forward(batch.tokens, all),
                        second = model->forward(batch.tokens, all);
    EXPECT_FALSE(torch::equal(first, second)) << variant;
    EXPECT_TRUE(torch::equal(again->forward(batch.tokens, all), first)) << variant;
    // What a checkpoint holds of a model that has gone one pass.
    const auto resumed = make();
    for (auto& item : resumed->named_buffers())
      item.value().copy_(again->named_buffers()[item.key()]);
    EXPECT_TRUE(torch::equal(resumed->forward(batch.tokens, all), second)) << variant;
    Config fixed = config;
    fixed.attention_options["redraw"] = variant.starts_with("performer") ? "interval" : "seed";
    torch::manual_seed(2);
    Model same(toy_task(), fixed);
    same.eval();
    EXPECT_TRUE(torch::equal(same.forward(batch.tokens, all), same.forward(batch.tokens, all)));
  }
}

// ---- The key maximum of Performer
// ------------------------------------------------------------------

TEST(KeyMaxTest, OfABatchMakesSamplesDependOnEachOther) {
  torch::manual_seed(3);
  const torch::Tensor q = torch::randn({2, 2, 9, 4}), k = torch::randn({2, 2, 9, 4}),
                      v = torch::randn({2, 2, 9, 4}), mask = torch::ones({2, 9}, torch::kBool);
  torch::Tensor far = k.clone();
  far[1].mul_(3);
  for (const auto& [key_max, depends] : {std::pair{"batch", true}, {"sample", false}}) {
    const auto attention = make_attention(
        parse_attention(std::string("performer[num_features=8,key_max=") + key_max + "]"),
        {.width = 8, .heads = 2, .head_dim = 4, .max_length = 9, .seed = 1});
    const double change = (attention->attend(q, k, v, mask) - attention->attend(q, far, v, mask))[0]
                              .abs()
                              .max()
                              .item<double>();
    EXPECT_EQ(change > 1e-6, depends) << key_max << ": " << change;
  }
}

TEST(MaxGradientTest, ChangesTheGradientAlone) {
  torch::manual_seed(3);
  const torch::Tensor q = torch::randn({2, 2, 9, 4}, torch::kDouble),
                      v = torch::randn({2, 2, 9, 4}, torch::kDouble),
                      mask = torch::ones({2, 9}, torch::kBool);
  std::map<std::string, std::pair<torch::Tensor, torch::Tensor>> found;
  for (const std::string kind : {"attached", "detached"}) {
    torch::Tensor k = (q + 0.5).detach().clone().requires_grad_();
    const auto attention = make_attention(
        parse_attention("performer[num_features=8,epsilon=1e-2,max_gradient=" + kind + "]"),
        {.width = 8, .heads = 2, .head_dim = 4, .max_length = 9, .seed = 1});
    const torch::Tensor out = attention->attend(q, k, v, mask);
    out.square().sum().backward();
    found[kind] = {out.detach(), k.grad().clone()};
  }
  const auto& [attached, gradient] = found["attached"];
  const auto& [detached, other] = found["detached"];
  EXPECT_LT((attached - detached).abs().max().item<double>(), 1e-12);
  EXPECT_GT((gradient - other).abs().max().item<double>(), 1e-6);
}

}  // namespace
}  // namespace lra
