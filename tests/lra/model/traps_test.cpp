// Traps that published code fell into, each as a test that fails where ours does.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lra/model/reach.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/protocols.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

// ---- A position that reaches nothing

struct ReachCase {
  std::string protocol, task;
  bool operator==(const ReachCase&) const = default;
};

class Reach : public testing::TestWithParam<ReachCase> {};

std::vector<ReachCase> reach_cases() {
  std::vector<ReachCase> cases;
  for (const std::string& protocol : protocols_by_what_they_compute()) {
    const Protocol loaded = load_protocol(protocol);
    for (const auto& [task, settings] : loaded.tasks.items()) {
      // Labels at positions stand behind what they need; causal models reach no further.
      if (task != "pathx" && !lra::task(task).position_labels)
        cases.push_back({protocol, task});  // pathfinder's sizes, 16 times as long
    }
  }
  return cases;
}

std::vector<ReachCase> reach_cases_of(bool later) {
  std::vector<ReachCase> cases = reach_cases();
  std::erase_if(cases, [&](const ReachCase& of) { return of_later_regime(of.protocol) != later; });
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<ReachCase>& given) {
  std::string name = given.param.protocol + "_" + given.param.task;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Protocols, Reach, testing::ValuesIn(reach_cases_of(/*later=*/false)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(SlowProtocols, Reach, testing::ValuesIn(reach_cases_of(/*later=*/true)),
                         name_of_case);

constexpr int64_t kReachLength = 640;  // five blocks of the largest there is, 128

struct Exemption {
  std::vector<int64_t> positions;  // that are tried in place of the middle and the end
  std::string reason;
};

// No other is exempt. Longformer reaches 256 positions a layer, further than this length.
std::optional<Exemption> exemption(const Config& config) {
  const bool of_bytes = config.task == "text" || config.task == "retrieval";
  if (config.attention.name == "reformer_tay2020" && of_bytes)
    return Exemption{{1, 3},
                     "its logits are squares of unnormalised vectors times √d, so that a token "
                     "sees little but itself, and row 0 holds positions 0 to H - 1 of head 0"};
  if (config.attention.name == "local_tay2020" && config.settings.model.pooling != Pooling::mean) {
    const int64_t block = config.attention_options["block"],
                  before = config.settings.model.pooling == Pooling::cls ? 1 : 0,
                  groups = (kReachLength + before) / block + 1;
    return Exemption{{groups * (block / 2) - before, groups * (kReachLength / groups) - before},
                     "the class token sees its own group alone, every (L/b)-th position"};
  }
  if (config.attention.name == "localconv" && config.settings.model.pooling != Pooling::mean)
    return Exemption{{1, 3}, "what is read at one position sees ⌊K/2⌋ others a layer"};
  return std::nullopt;
}

// What a case is about: a model of every variant, or in a later regime, whose recipes are deeper,
// of its own.
std::vector<Config> reach_configs(const ReachCase& given) {
  const Protocol protocol = load_protocol(given.protocol);
  std::vector<Config> configs;
  for (const AttentionEntry* entry : attention_entries()) {
    if (!is_shipped(entry->info.name) ||
        (protocol.regime == kLaterRegime && !protocol.attentions.contains(entry->info.name)))
      continue;
    Config config = make_config(protocol, given.task, {.name = entry->info.name}, {}, 1, "float32");
    // Nothing reaches further by these, and they take most of the time.
    if (protocol.regime != kLaterRegime) {
      config.settings.model.feed_forward = 16;
      // What released code does with logits may depend on it.
      if (attention_entry(config.attention.name).info.released_form_of.empty())
        config.settings.model.width = std::min<int64_t>(config.settings.model.width, 64);
    }
    configs.push_back(config);
  }
  return configs;
}

// Two configurations of one model answer alike.
std::string model_of(const Config& config) {
  const json all = config.to_json();
  return json{all.at("task"), all.at("attention"), all.at("model"), all.at("input")}.dump();
}

TEST_P(Reach, EveryVariantsAnswerDependsOnTheMiddleAndOnTheEnd) {
  std::set<std::string> of_earlier_cases;
  for (const ReachCase& earlier : reach_cases()) {
    if (earlier == GetParam()) break;
    for (const Config& config : reach_configs(earlier)) of_earlier_cases.insert(model_of(config));
  }
  const std::vector<Config> configs = reach_configs(GetParam());
  EXPECT_GE(configs.size(), load_protocol(GetParam().protocol).regime == kLaterRegime ? 1u : 21u);
  for (const Config& config : configs) {
    if (of_earlier_cases.contains(model_of(config))) continue;
    std::vector<int64_t> positions = {kReachLength / 2, kReachLength - 1};
    const std::optional<Exemption> exempt = exemption(config);
    const size_t own = exempt ? positions.size() : 0;
    if (exempt)
      positions.insert(positions.begin(), exempt->positions.begin(), exempt->positions.end());
    const Task read = task(config.task, config.settings.input.reading());
    const std::vector<TokenReach> reach = token_reach(read, config, kReachLength, positions);
    // Recurrent mixers start by weighing one token of many little; rounding is below 1e-13.
    const double seen = config.attention.name == "lru" ? 1e-8 : 1e-6;
    for (size_t i = 0; i < reach.size() - own; ++i) {
      EXPECT_GT(reach[i].change, seen) << config.attention.name << ", token " << reach[i].position;
    }
    if (exempt) {
      EXPECT_LE(std::min(reach[2].change, reach[3].change), 1e-6)
          << config.attention.name << " needs no exemption: " << exempt->reason;
    }
  }
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

// ---- Pooling and padding

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

// ---- Draws that each pass makes anew

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
  const torch::Tensor start = torch::randn({2, 2, 9, 4}, torch::kDouble),
                      v = torch::randn({2, 2, 9, 4}, torch::kDouble),
                      mask = torch::ones({2, 9}, torch::kBool);
  struct Found {
    torch::Tensor out, q, k;  // and the gradients
  };
  std::map<std::string, Found> found;
  for (const std::string kind : {"attached", "detached"}) {
    torch::Tensor q = start.clone().requires_grad_(), k = (start + 0.5).detach().requires_grad_();
    const auto attention = make_attention(
        parse_attention("performer[num_features=8,epsilon=1e-2,max_gradient=" + kind + "]"),
        {.width = 8, .heads = 2, .head_dim = 4, .max_length = 9, .seed = 1});
    const torch::Tensor out = attention->attend(q, k, v, mask);
    out.square().sum().backward();
    found[kind] = {out.detach(), q.grad(), k.grad()};
  }
  const Found &attached = found["attached"], &detached = found["detached"];
  EXPECT_LT((attached.out - detached.out).abs().max().item<double>(), 1e-12);
  EXPECT_GT((attached.k - detached.k).abs().max().item<double>(), 1e-6);
}

}  // namespace
}  // namespace lra
