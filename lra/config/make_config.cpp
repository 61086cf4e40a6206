#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "lra/config/check_settings.h"
#include "lra/config/embedded.h"
#include "lra/config/protocol.h"
#include "lra/config/protocol_parts.h"
#include "lra/data/task.h"

namespace lra {
namespace {

constexpr std::string_view kPretraining = "pretraining";

bool is_of_pretraining(const std::string& key) {
  return key == kPretraining || key.starts_with("pretraining.");
}

// Sets a.b.c of `object`, or the keys below it that a JSON object gives, and adds them to `keys`;
// throws on text without '='.
void apply_set(json& object, const std::string& text, std::set<std::string>& keys,
               const std::string& option = "--set") {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(option + " should be key=value, as training.batch=16, not '" + text + "'");
  }
  const std::string key = text.substr(0, equals);
  json* at = &object;
  size_t begin = 0;
  for (size_t dot = key.find('.'); dot != std::string::npos;
       begin = dot + 1, dot = key.find('.', begin)) {
    at = &(*at)[key.substr(begin, dot - begin)];
    if (!at->is_null() && !at->is_object())
      throw UsageError(option + " " + key + ": " + key.substr(0, dot) + " is a value, not a group");
  }
  const json value = value_from_text(text.substr(equals + 1));
  if (value.is_object() && value.empty()) {
    if (!is_of_pretraining(key)) {
      throw UsageError(
          fmt::format("{} {}: an empty group gives no value; name a key of it", option, key));
    }
    // none of what the protocol has there
    (*at)[key.substr(begin)] = value;
    keys.insert(key);
    return;
  }
  collect_keys(value, key, keys);
  merge(*at, {{key.substr(begin), value}});
}

json merged_settings(const Protocol& protocol, const std::string& task_name,
                     const AttentionSpec& attention) {
  check_task_known(protocol, task_name);
  json own = protocol.tasks[task_name];
  own.erase(kAttentions);
  json merged = protocol.settings;
  merge(merged, own);
  const std::string name = plain_name(attention.name);
  merge(merged, protocol.attention_settings.value(name, json::object()));
  merge(merged, attention_part(protocol, task_name, attention).settings);
  return merged;
}

Settings settings_of(const Protocol& protocol, const std::string& task_name,
                     const AttentionSpec& attention) {
  Settings settings;
  read_fields(merged_settings(protocol, task_name, attention), settings,
              "protocol " + protocol.name);
  return settings;
}

// As settle(). What a user's protocol does wrong by itself is an error that names its file.
void settle_given(Config& config, const Protocol& protocol, const std::string& task_name,
                  const AttentionSpec& attention) {
  try {
    settle(config);
  } catch (const UsageError&) {
    if (!protocol.where.starts_with("protocol file")) throw;
    Config plain = config;
    plain.settings = settings_of(protocol, task_name, attention);
    read_at(protocol.where + ": task " + task_name, [&] { settle(plain); });
    throw;
  }
}

// The keys that some variant of this task has a value of its own for.
std::vector<std::string> keys_by_attention(const Protocol& protocol, const std::string& task_name) {
  std::set<std::string> keys;
  const json parts = attention_settings(protocol, task_name);
  for (const auto& [variant, part] : parts.items()) {
    if (part.contains("settings")) collect_keys(part["settings"], "", keys);
  }
  for (const auto& [variant, own] : protocol.attention_settings.items())
    collect_keys(own, "", keys);
  return {keys.begin(), keys.end()};
}

// Whether brackets on the command line give what "attentions.s5.state" names.
bool is_option_of(const AttentionSpec& attention, const std::string& key) {
  return key.starts_with(kAttentions) && attention.options.contains(key.substr(key.rfind('.') + 1));
}

// The objective would go over it.
void check_causal_asked(const Settings& settings, const std::set<std::string>& keys) {
  if (settings.training.objective != Objective::causal || settings.model.causal ||
      !keys.contains("model.causal"))
    return;
  throw UsageError(
      "model.causal false with training.objective causal: what is to be predicted would be read; "
      "leave it out");
}

// What a user gives the run that comes first is checked as what she gives the other.
void check_pretraining(Config first, const std::vector<std::string>& overridden) {
  const TrainingDtype wanted = first.settings.training.dtype;
  if (wanted != TrainingDtype::any && to_string(wanted) != to_string(first.dtype)) {
    throw UsageError(fmt::format("training.dtype is {}: both runs are in that of --dtype, {}",
                                 to_string(wanted), to_string(first.dtype)));
  }
  first.overridden.clear();
  for (const std::string& key : overridden) {
    if (key != kPretraining && is_of_pretraining(key))
      first.overridden.push_back(key.substr(kPretraining.size() + 1));
  }
  check_read(first);
  check_coupling(first);
}

}  // namespace

Protocol with_settings(Protocol protocol, const std::string& task_name,
                       const std::string& attention, const std::vector<std::string>& sets) {
  check_task_known(protocol, task_name);
  json own = {{"settings", json::object()}};
  std::set<std::string> keys;
  for (const std::string& text : sets) apply_set(own["settings"], text, keys);
  const std::string entry = entry_key(protocol, task_name, attention_of_entry(attention));
  merge(protocol.tasks, {{task_name, {{kAttentions, {{entry, own}}}}}});
  return protocol;
}

bool word_sets(const std::string& text, const std::string& key) {
  json object = json::object();
  std::set<std::string> keys;
  apply_set(object, text, keys);
  return keys.contains(key);
}

void check_setting(const std::string& text, const std::string& option) {
  json object = json::object();
  std::set<std::string> keys;
  apply_set(object, text, keys, option);
  Settings settings;
  read_fields(object, settings, option);
}

Settings task_settings(const Protocol& protocol, const std::string& task_name,
                       const std::string& attention) {
  return settings_of(protocol, task_name, attention_of_entry(attention));
}

AttentionSpec meant_attention(const Protocol& protocol, const std::string& task_name,
                              const AttentionSpec& attention) {
  const json parts = attention_settings(protocol, task_name);
  const json part = parts.value(attention.name, json::object());
  std::string name = part.is_object() ? part.value("variant", std::string()) : std::string();
  if (name.empty()) name = protocol.variants.value(attention.name, attention.name);
  return {.name = name, .options = attention.options};
}

Config make_config(const Protocol& protocol, const std::string& task_name,
                   const AttentionSpec& given, const std::vector<std::string>& sets, uint64_t seed,
                   const std::string& dtype, const std::string& kept_file) {
  Config config;
  config.task = task(task_name).name;
  const AttentionSpec attention = meant_attention(protocol, task_name, given);
  config.attention = attention;
  config.protocol = protocol.name;
  config.regime = protocol.regime;
  config.seed = seed;
  const auto number_type = parse_name<ops::Dtype>(dtype);
  if (!number_type || number_type == ops::Dtype::float64) {
    throw UsageError("--dtype should be float32 or bfloat16, not '" + dtype + "'");
  }
  config.dtype = *number_type;

  json merged = merged_settings(protocol, task_name, attention);
  std::set<std::string> keys;
  for (const std::string& text : sets) apply_set(merged, text, keys);
  read_fields(merged, config.settings, sets.empty() ? "protocol " + protocol.name : "--set");
  check_causal_asked(config.settings, keys);
  settle_given(config, protocol, task_name, attention);
  const TrainingDtype wanted = config.settings.training.dtype;
  if (wanted != TrainingDtype::any && to_string(wanted) != dtype) {
    const std::string where =
        keys.contains("training.dtype") ? "by --set" : "in protocol " + protocol.name;
    throw UsageError("training.dtype is " + to_string(wanted) + " " + where + ": give --dtype " +
                     to_string(wanted) + ", or --set training.dtype=any");
  }
  config.by_attention = keys_by_attention(protocol, task_name);
  const json now = write_fields(config.settings),
             own = write_fields(with_rates(settings_of(protocol, task_name, attention)));
  for (const std::string& key : keys) {
    const json::json_pointer at = dotted_pointer(key);
    // Where attentions have values of their own, one that is set for all is no longer the
    // protocol's, be it this one's.
    const bool by_attention = std::ranges::count(config.by_attention, key) > 0;
    if (!own.contains(at) || now.at(at) != own.at(at) || by_attention)
      config.overridden.push_back(key);
  }
  check_read(config);
  const std::string entry = entry_key(protocol, task_name, attention);
  for (const LeftValue& one : protocol.left) {
    const bool set = keys.contains(one.key) || is_option_of(attention, one.key);
    if (one.task == config.task && one.attention == entry && !set) config.left.push_back(one);
  }

  json options = protocol.attentions.value(attention.name, json::object());
  merge(options, attention_part(protocol, task_name, attention).options);
  merge(options, attention.options);
  if (!kept_file.empty()) {
    config.named_file = options.value("file", "");
    options["file"] = kept_file;
  }
  config.attention_options = attention_entry(attention.name).effective_options(options);
  check_coupling(config);
  check_causal_options({.name = attention.name, .options = given.options},
                       config.settings.model.causal);
  if (!config.settings.pretraining.empty()) pretraining_config(config);
  return config;
}

Config pretraining_config(const Config& config) {
  if (predicts_tokens(config.settings.training.objective)) {
    throw UsageError("protocol " + config.protocol +
                     " pretrains by itself (pretraining): training.objective should be classify, "
                     "not " +
                     to_string(config.settings.training.objective));
  }
  Config first = config;
  first.pretrained = json::object();
  json merged = write_fields(config.settings);
  merged.erase("pretraining");
  merged["training"]["objective"] = to_string(Objective::masked);
  merge(merged, config.settings.pretraining);
  first.settings.pretraining = json::object();
  read_fields(merged, first.settings, "pretraining");
  if (!first.settings.pretraining.empty())
    throw UsageError("pretraining: a group pretraining has no effect there; leave it out");
  if (!predicts_tokens(first.settings.training.objective))
    throw UsageError("pretraining: training.objective should be masked or causal there");
  if (!config.settings.evaluation.test) {
    constexpr const char* kTest = "pretraining.evaluation.test";
    if (first.settings.evaluation.test && std::ranges::count(config.overridden, kTest) > 0)
      throw UsageError(std::string(kTest) + " has an effect only where evaluation.test is true");
    first.settings.evaluation.test = false;
  }
  read_at(std::string(kPretraining), [&] {
    settle(first);
    check_pretraining(first, config.overridden);
  });
  std::set<std::string> keys(config.overridden.begin(), config.overridden.end());
  std::erase_if(keys, is_of_pretraining);
  collect_keys(config.settings.pretraining, "", keys);
  keys.insert("training.objective");
  first.overridden = {keys.begin(), keys.end()};
  return first;
}

}  // namespace lra
