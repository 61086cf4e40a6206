// Keys of protocols that nothing reads (D5), as released configurations have some: every key that a
// protocol sets changes the configuration and what comes of a toy run.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "attention_variants/base/fields.h"
#include "attention_variants/base/files.h"
#include "attention_variants/base/random.h"
#include "harness/training/run_folder.h"
#include "harness/training/train.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/program.h"
#include "tests/support/protocols.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Keys that may be without effect, with the reason; "variant.option" for an option.
const std::map<std::string, std::string> kMayBeDead = {
    {"evaluation.batch", "samples at once: of effect only where drop_last leaves some out"},
    {"standard.implementation", "two implementations of one function"},
    {"s5.clip_eigs", "of effect only where training makes a real part positive"},
    {"reformer: input.mask", "tay2020's reads no mask: the value says so to readers"}};

// Sizes of the toy; a key of these is changed from here. Blocks and budgets fit 48 tokens.
const std::vector<std::string> kToy = {
    "input.length=48",     "model.width=16",     "model.feed_forward=16",
    "model.classifier=16", "model.heads=2",      "model.head_dim=8",
    "model.layers=1",      "training.steps=5",   "training.batch=4",
    "schedule.warmup=2",   "evaluation.batch=4", "training.evaluate_every=1",
    "training.log_every=1"};
// The same of a run before it, where the protocol has one. Its last evaluation alone chooses, so
// that what it has learned goes on.
const std::vector<std::string> kToyFirst = {
    "pretraining.training.steps=4", "pretraining.training.batch=4",
    "pretraining.training.evaluate_every=4", "pretraining.schedule.warmup=2"};
const std::map<std::string, json> kToyOptions = {{"longformer", {{"window", 8}}},
                                                 {"sparse", {{"block", 8}, {"summary", 2}}},
                                                 {"bigbird", {{"block", 4}, {"random_blocks", 1}}},
                                                 {"reformer", {{"chunk_length", 4}}},
                                                 {"local", {{"block", 8}}},
                                                 {"local_tay2020", {{"block", 8}}},
                                                 {"sinkhorn", {{"block", 8}}},
                                                 {"sinkhorn_tay2020", {{"block", 8}}},
                                                 {"skyformer", {{"num_features", 8}}},
                                                 {"nystrom", {{"num_landmarks", 8}}},
                                                 {"performer", {{"num_features", 8}}},
                                                 {"linformer", {{"projected_length", 8}}},
                                                 {"s5", {{"state", 16}, {"blocks", 2}}}};

// Other values, tried in turn until one has an effect; numbers and flags that stand in neither are
// changed by other_values().
const std::map<std::string, std::vector<json>> kOthers = {
    {"input.cut", {7}},
    {"input.mask", {"none", "nonzero", "length"}},
    {"input.brackets", {"keep", "drop"}},
    {"input.colours", {"rgb"}},
    {"model.batch_statistics", {"all"}},
    {"model.block", {"transformer", "s4"}},
    {"model.norm_kind", {"layer", "batch"}},
    {"model.dropout_kind", {"plain", "tied"}},
    {"model.gate", {"activation", "glu"}},
    {"model.encoder", {"linear", "real", "embedding"}},
    {"model.pixel_means", {json::array({0.5})}},
    {"model.pixel_sds", {json::array({0.5})}},
    {"model.positions", {"learned", "sinusoidal"}},
    {"model.width", {18}},
    {"model.head_dim", {10}},
    {"model.norm", {"post", "pre"}},
    {"model.rotary_base", {50}},
    {"model.pooling", {"mean", "cls", "first"}},
    {"model.mean_over", {"real", "length", "all"}},
    {"model.padded_rows", {"zero", "uniform"}},
    {"model.padding", {"masked", "counted"}},
    {"model.cls_mask", {"real", "first_token"}},
    {"model.head", {"mlp", "linear"}},
    {"model.causal", {true, false}},
    {"model.pair", {"interact", "concat"}},
    {"model.init", {"torch", "flax"}},
    {"model.gelu", {"exact", "tanh"}},
    {"model.norm_eps", {0.5}},
    {"model.attention_dtype", {"model", "float32"}},
    {"optimizer.clip_norm", {1e-3}},
    {"optimizer.clip_value", {1e-6}},
    {"optimizer.eps", {0.5}},
    {"optimizer.beta1", {0.5}},
    {"optimizer.beta2", {0.5}},
    {"optimizer.groups", {json::array(), json::array({{{"match", {"tokens.*"}}, {"lr", 0.01}}})}},
    {"schedule.kind", {"constant", "rsqrt"}},
    {"schedule.power", {3}},
    {"schedule.warmup", {1}},
    {"schedule.start_divisor", {2}},
    {"schedule.final_divisor", {2}},
    {"schedule.beta1_low", {0.5}},
    {"schedule.beta1_high", {0.9}},
    {"training.steps", {6}},
    {"training.batch", {5}},
    {"training.evaluate_every", {3}},
    {"training.micro_batch", {2}},
    {"training.objective", {"causal"}},
    {"evaluation.dev", {"dev", "test"}},
    {"evaluation.select_after", {0, 1}},
    {"evaluation.batch", {5}},
    {"bigbird.random_range", {12, 40}},
    {"bigbird.append", {"none"}},
    {"bigbird.block", {8}},
    {"linear.epsilon", {0.5}},
    {"linformer.sharing", {"headwise", "none", "key_value"}},
    {"linformer.init", {"normal", "uniform"}},
    {"linformer.tables", {"layer", "model"}},
    {"longformer.window_form", {"sides"}},
    {"longformer.window", {12}},
    {"lru.r_max", {0.9995}},
    {"lru.r_min", {0.1}},
    {"lru.max_phase", {1}},
    {"mega.attention", {"softmax", "laplace"}},
    {"mega.truncation", {4}},
    {"nystrom.padding", {"masked"}},
    {"nystrom.init", {"per_matrix"}},
    {"nystrom.conv_kernel_size", {0, 5}},
    {"performer.epsilon", {0.1}},
    {"performer.guard", {0.1}},
    {"performer.key_max", {"sample", "batch"}},
    {"performer.redraw", {"interval"}},
    {"performer.kernel", {"relu"}},
    {"reformer.redraw", {"seed"}},
    {"s4d.init", {"lin"}},
    {"s4d.copies", {4}},
    {"s4d.dt_min", {0.01}},
    {"s4d.state", {32}},
    {"s5.state", {32}},
    {"s5.blocks", {4}},
    {"s5.c_init", {"trunc", "lecun"}},
    {"s5.dt_min", {0.01}},
    {"s5.discretisation", {"bilinear"}},
    {"skyformer.redraw", {"seed"}},
    {"skyformer.positions", {"real"}},
    {"skyformer.init", {"matrix"}},
    {"sparse.cls", {"token", "open"}}};

// What a key needs beside it to be of effect.
const std::map<std::string, std::vector<std::string>> kNeeds = {
    {"schedule.beta1_low", {"schedule.beta1_low=0.1", "schedule.beta1_high=0.95"}},
    {"schedule.beta1_high", {"schedule.beta1_low=0.1", "schedule.beta1_high=0.95"}},
    {"optimizer.beta1", {"schedule.beta1_low=0", "schedule.beta1_high=0"}}};

// Of a setting of the run before: the setting.
std::string plain_key(const std::string& key) {
  const std::string prefix = "pretraining.";
  return key.starts_with(prefix) ? key.substr(prefix.size()) : key;
}

std::vector<json> other_values(const std::string& key, const json& value) {
  if (const auto it = kOthers.find(plain_key(key)); it != kOthers.end()) return it->second;
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) return {value.get<int64_t>() + 1};
  if (value.is_number()) return {value.get<double>() < 0.3 ? value.get<double>() + 0.3 : 0.01};
  ADD_FAILURE() << key << " needs other values to try, beside " << value;
  return {};
}

// Samples of 5 to 60 ids of which some are 0, of labels in turn; the toy cuts what may be cut.
void make_toy_data(const Task& of, const fs::path& out) {
  if (fs::exists(out / of.name)) return;
  CounterRandom random(3, 0);
  std::map<std::string, SplitWriter> splits;
  for (const auto& [name, count] : {std::pair{"train", 12}, {"dev", 7}, {"test", 9}}) {
    SplitWriter writer(of.inputs);
    for (int64_t i = 0; i < count; ++i) {
      size_t length = 0;
      for (int64_t j = 0; j < of.inputs; ++j) {
        length = 5 + random.below(of.whole_samples ? 44 : 56);
        std::vector<uint16_t> ids(length);
        for (uint16_t& id : ids)
          id = static_cast<uint16_t>(random.below(static_cast<uint32_t>(of.vocabulary)));
        if (i % 4 == 0) ids.front() = 0;  // a first pixel of 0, say
        writer.tokens(ids);
      }
      const int64_t label = i % std::min<int64_t>(of.classes, 3);
      if (of.position_labels) {
        std::vector<int32_t> labels(length, -1);
        labels[1] = labels[std::min<size_t>(length, 48) - 1] = static_cast<int32_t>(label);
        writer.labels(labels);
      } else {
        writer.label(label);
      }
    }
    splits[name] = std::move(writer);
  }
  write_prepared(out,
                 {.task = of.name,
                  .source = "random",
                  .generator = "test/1",
                  .vocabulary = of.vocabulary,
                  .classes = of.classes,
                  .inputs = of.inputs,
                  .position_labels = of.position_labels},
                 splits);
}

// What comes of a run, and of that before it: log without clocks, accuracies, predictions and
// parameters.
std::string outcome_of(const fs::path& run) {
  const json result = read_json(run / kResultFile);
  json outcome = {{"status", result.at("status")}, {"parameters", result.value("parameters", 0)}};
  for (const char* key : {"test", "dev", "best_step", "steps"})
    outcome[key] = result.value(key, json());
  outcome["log"] = log_without_clocks(run);
  std::string bytes = outcome.dump();
  if (fs::exists(run / kPredictionsFile)) bytes += read_file(run / kPredictionsFile);
  if (fs::exists(run / kPretrainingFolder)) bytes += outcome_of(run / kPretrainingFolder);
  for (const auto& [name, tensor] : read_tensors(run / kLastCheckpoint).tensors) {
    const auto whole = tensor.contiguous();
    bytes += name + shape_text(whole) +
             std::string(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
  }
  return sha256(bytes);
}

class DeadKeysTrap : public testing::TestWithParam<std::string> {
 protected:
  struct Toy {
    std::string task, attention;
    std::vector<std::string> sets = {};
    json options = json::object();
    bool bfloat16 = false;
  };
  struct Ran {
    json config;
    std::string outcome;
  };

  Ran run(const Protocol& protocol, const Toy& toy) {
    // The toy's sizes are the protocol's here: as overrides they would be refused where one is
    // not read.
    std::vector<std::string> sizes = kToy;
    if (!task_settings(protocol, toy.task).pretraining.empty())
      sizes.insert(sizes.end(), kToyFirst.begin(), kToyFirst.end());
    const Protocol small = with_settings(protocol, toy.task, toy.attention, sizes);
    const std::string meant = meant_attention(protocol, toy.task, {.name = toy.attention}).name;
    json options = kToyOptions.contains(meant) ? kToyOptions.at(meant) : json::object();
    options.update(toy.options);
    const TrainRequest request{
        .config = make_config(small, toy.task, {.name = toy.attention, .options = options},
                              toy.sets, 0, toy.bfloat16 ? "bfloat16" : "float32"),
        .run = scratch_.path() / ("run" + std::to_string(++count_)),
        .data = scratch_.path() / "data"};
    make_toy_data(task(toy.task), request.data);
    EXPECT_EQ(train(request), Status::ok) << toy.task << " " << toy.attention;
    Ran ran{request.config.to_json(), outcome_of(request.run)};
    fs::remove_all(request.run);
    return ran;
  }

  // The same toy runs once for all keys.
  const Ran& base(const Protocol& protocol, const Toy& toy) {
    const std::string key =
        json{toy.task, toy.attention, toy.sets, toy.options, toy.bfloat16}.dump();
    const auto it = bases_.find(key);
    return it != bases_.end() ? it->second : bases_.emplace(key, run(protocol, toy)).first->second;
  }

  bool has_effect(const Protocol& protocol, const Toy& toy, const Toy& changed) {
    const Ran& before = base(protocol, toy);
    const Ran after = run(protocol, changed);
    return after.config != before.config && after.outcome != before.outcome;
  }

  // Whether some other value of a setting has an effect on a variant's run of a task.
  bool setting_lives(const Protocol& protocol, const std::string& task_name,
                     const std::string& attention, const std::string& key) {
    Toy toy{.task = task_name, .attention = attention};
    if (kNeeds.contains(key)) toy.sets = kNeeds.at(key);
    toy.bfloat16 = key == "model.attention_dtype";  // only then is there another type to leave
    const json in_force = base(protocol, toy).config;
    const json now = in_force.at(dotted_pointer(key));
    return std::ranges::any_of(other_values(key, now), [&](const json& other) {
      if (other == now) return false;
      Toy changed = toy;
      changed.sets.push_back(key + "=" + text_from_value(other));
      try {
        return has_effect(protocol, toy, changed);
      } catch (const UsageError& error) {
        if (!is_refused(error.what())) throw;
        refused_.insert(key);
        return false;
      }
    });
  }

  bool option_lives(const Protocol& protocol, const std::string& task_name,
                    const std::string& attention, const std::string& meant,
                    const std::string& option) {
    // In one layer a first token that is pooled sees all of a pattern that lets it.
    const Toy toy{.task = task_name, .attention = attention, .sets = {"model.layers=2"}};
    const json now = base(protocol, toy).config["attention"]["options"][option];
    return std::ranges::any_of(other_values(meant + "." + option, now), [&](const json& other) {
      if (other == now) return false;
      Toy changed = toy;
      changed.options[option] = other;
      return has_effect(protocol, toy, changed);
    });
  }

  // As nothing reads it beside the other settings, or in the task.
  static bool is_refused(const std::string& error) {
    return std::ranges::any_of(std::array{" has an effect only where ", ": the task text has no ",
                                          " reads pixels, which "},
                               [&](const char* part) { return contains(error, part); });
  }

  Scratch scratch_;
  std::set<std::string> refused_;
  std::map<std::string, Ran> bases_;
  int count_ = 0;
};

// "a.b" -> value, of a protocol's nested objects.
std::map<std::string, json> leaves(const json& object) {
  std::map<std::string, json> found;
  for (const auto& [group, inner] : object.items()) {
    if (group == "attentions") continue;
    if (!inner.is_object()) {
      found[group] = inner;
      continue;
    }
    for (const auto& [key, value] : leaves(inner)) found[group + "." + key] = value;
  }
  return found;
}

std::vector<std::string> protocols_of(bool later) {
  std::vector<std::string> names = protocols_by_what_they_compute();
  std::erase_if(names, [&](const std::string& name) { return of_later_regime(name) != later; });
  return names;
}

std::string of_protocol(const testing::TestParamInfo<std::string>& given) {
  std::string name = given.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Protocols, DeadKeysTrap, testing::ValuesIn(protocols_of(/*later=*/false)),
                         of_protocol);
INSTANTIATE_TEST_SUITE_P(SlowProtocols, DeadKeysTrap,
                         testing::ValuesIn(protocols_of(/*later=*/true)), of_protocol);

// Those of these tasks that a protocol is of.
std::vector<std::string> known_of(const Protocol& protocol, std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) { return !protocol.tasks.contains(name); });
  return names;
}

// A key of all tasks, or of a variant in all of them, lives if it does in one of them.
TEST_P(DeadKeysTrap, EverySettingHasAnEffect) {
  const Protocol protocol = load_protocol(GetParam());
  // A deeper recipe is of its own attention: only that has parameters that are trained slowly.
  const std::string attention =
      protocol.regime != kLaterRegime ? "standard" : protocol.attentions.begin().key();
  std::set<std::string> dead;
  for (const auto& [key, value] : leaves(protocol.settings)) {
    if (kMayBeDead.contains(plain_key(key))) continue;
    const bool lives = std::ranges::any_of(
        known_of(protocol, {"retrieval", "image", "listops", "pathfinder", "induction"}),
        [&](const std::string& name) { return setting_lives(protocol, name, attention, key); });
    if (!lives) dead.insert(key);
  }
  for (const auto& [variant, own] : protocol.attention_settings.items()) {
    for (const auto& [key, value] : leaves(own)) {
      const std::string which = variant + ": " + key;
      if (!kMayBeDead.contains(which) && !setting_lives(protocol, "text", variant, key))
        dead.insert(which);
    }
  }
  for (const auto& [name, entry] : protocol.tasks.items()) {
    std::set<std::string> tried;
    for (const auto& [key, value] : leaves(entry)) {
      tried.insert(key);
      if (!kMayBeDead.contains(plain_key(key)) && !setting_lives(protocol, name, attention, key))
        dead.insert(name + ": " + key);
    }
    const json parts = attention_settings(protocol, name);
    for (const auto& [variant, part] : parts.items()) {
      for (const auto& [key, value] : leaves(part.value("settings", json::object()))) {
        if (tried.insert(key).second && !setting_lives(protocol, name, variant, key))
          dead.insert(name + ", " + variant + ": " + key);
      }
    }
  }
  EXPECT_EQ(dead, std::set<std::string>{});
}

TEST_P(DeadKeysTrap, EveryOptionAndEveryMeaningHasAnEffect) {
  const Protocol protocol = load_protocol(GetParam());
  std::set<std::string> dead;
  const auto try_options = [&](const std::string& meant, const json& options,
                               const std::vector<std::string>& tasks) {
    const std::string& form_of = attention_entry(meant).info.released_form_of;
    const std::string plain = form_of.empty() ? meant : form_of;
    for (const auto& [option, value] : options.items()) {
      if (kMayBeDead.contains(meant + "." + option)) continue;
      const bool lives = std::ranges::any_of(tasks, [&](const std::string& name) {
        return meant_attention(protocol, name, {.name = plain}).name == meant &&
               option_lives(protocol, name, plain, meant, option);
      });
      if (!lives) dead.insert(meant + "." + option);
    }
  };
  for (const auto& [meant, options] : protocol.attentions.items())
    try_options(meant, options, {"text", "listops"});
  for (const auto& [name, entry] : protocol.tasks.items()) {
    const json parts = attention_settings(protocol, name);
    for (const auto& [variant, part] : parts.items()) {
      const std::string meant = meant_attention(protocol, name, {.name = variant}).name;
      try_options(meant, part.value("options", json::object()), {name});
    }
  }
  for (const auto& [variant, meant] : protocol.variants.items()) {
    Protocol plain = protocol;
    plain.variants.erase(variant);
    const Toy toy{.task = "text", .attention = variant};
    const Ran &as_meant = base(protocol, toy), as_named = run(plain, toy);
    if (as_meant.outcome == as_named.outcome) dead.insert("variants." + variant);
  }
  EXPECT_EQ(dead, std::set<std::string>{});
}

// Of effect on what is kept, or on how it is computed; or told to be what it is. What stands in
// padded rows decides roundings alone, on some processors, where nothing averages them.
const std::set<std::string> kOfNoOutcome = {"execution",          "kernels",
                                            "model.padded_rows",  "training.checkpoint_every",
                                            "training.log_every", "training.dtype"};

using UnreadSettings = DeadKeysTrap;

// A setting that a run could be given and that nothing reads there is refused.
TEST_F(UnreadSettings, AreRefused) {
  const Protocol protocol = load_protocol("lra-strict");
  std::set<std::string> dead;
  for (const auto& [key, value] : leaves(write_fields(Settings()))) {
    if (key == "pretraining" || kMayBeDead.contains(key) || kOfNoOutcome.contains(key)) continue;
    if (!setting_lives(protocol, "text", "standard", key) && !refused_.contains(key))
      dead.insert(key);
  }
  EXPECT_EQ(dead, std::set<std::string>{});
  EXPECT_TRUE(refused_.contains("model.gate") && refused_.contains("model.pair"));
  const auto refusal = [](const std::string& name, const std::vector<std::string>& sets) {
    return error_text([&] {
      make_config(load_protocol(name), name == "recall" ? "mqar" : "listops",
                  parse_attention("standard"), sets, 0, "float32");
    });
  };
  for (const std::string init : {"mega", "lecun"})
    EXPECT_NE(refusal("recall", {"model.init=" + init}).find("model.init has an effect only where"),
              std::string::npos);
  EXPECT_EQ(refusal("recall", {"model.init=flax"}), "(no error)");
  EXPECT_EQ(refusal("lra-strict", {"model.init=lecun"}), "(no error)");
  EXPECT_NE(refusal("lra-strict", {"model.attention_dtype=float32"})
                .find("model.attention_dtype has an effect only where --dtype is bfloat16"),
            std::string::npos);
}

}  // namespace
}  // namespace lra
