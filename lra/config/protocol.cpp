#include "lra/config/protocol.h"

#include <algorithm>
#include <set>

#include "attention_variants/base/json_text.h"
#include "embedded_protocols.h"
#include "lra/config/embedded.h"
#include "lra/data/task.h"

namespace lra {
namespace {

constexpr const char* kSchema = "lra.protocol/1";

struct ProtocolFile {
  std::string schema, name, title, description, source, extends;
  json follows = json::array(), choices = json::array();
  bool inherit_choices = true;
  json settings = json::object(), tasks = json::object(), attentions = json::object(),
       attention_settings = json::object(), variants = json::object();

  template <class Fields>
  void fields(Fields& f) {
    f("schema", schema, one_of({kSchema}));
    f("name", name);
    f("title", title);
    f("description", description);
    f("source", source);
    f("extends", extends);
    f("follows", follows);
    f("choices", choices);
    f("inherit_choices", inherit_choices);
    f("settings", settings);
    f("tasks", tasks);
    f("attentions", attentions);
    f("attention_settings", attention_settings);
    f("variants", variants);
  }
};

// A task's entry for one variant.
struct AttentionPart {
  json settings = json::object(), options = json::object();
  std::string variant;  // that is meant; empty: as the protocol says for all tasks

  template <class Fields>
  void fields(Fields& f) {
    f("settings", settings);
    f("options", options);
    f("variant", variant);
  }
};

constexpr const char* kAttentions = "attentions";  // the key of a task's entries for variants

// Objects merge key by key; anything else replaces.
void merge(json& below, const json& above) {
  for (const auto& [key, value] : above.items()) {
    if (value.is_object() && below.contains(key) && below[key].is_object()) {
      merge(below[key], value);
    } else {
      below[key] = value;
    }
  }
}

// Adds the strings of a list.
void add_lines(const json& value, const char* key, const std::string& where,
               std::vector<std::string>& lines) {
  const bool strings = value.is_array() && std::ranges::all_of(value, [](const json& item) {
                         return item.is_string();
                       });
  if (!strings) bad_value(where, key, "a list of strings", value);
  for (const json& item : value) lines.push_back(item);
}

// Reads everything that a task's entry holds.
void check_task(const Protocol& protocol, const std::string& task_name, const std::string& where) {
  task(task_name);
  json own = protocol.tasks[task_name];
  if (own.is_object()) own.erase(kAttentions);
  Settings of_task;
  read_fields(own, of_task, where);
  const json parts = attention_settings(protocol, task_name);
  if (!parts.is_object())
    throw UsageError(where + "." + kAttentions + " should be a JSON object, not " + parts.dump());
  for (const auto& [variant, value] : parts.items()) {
    const std::string place = where + "." + kAttentions + "." + variant;
    AttentionPart part;
    read_fields(value, part, place);
    const AttentionEntry& entry =
        attention_entry(meant_attention(protocol, task_name, {.name = variant}).name);
    Settings of_variant;
    read_fields(part.settings, of_variant, place + ".settings");
    json options = protocol.attentions.value(entry.info.name, json::object());
    check_keys(part.options, entry.option_names, place + ".options");
    merge(options, part.options);
    entry.effective_options(options);
  }
}

// What decides a run, of the tasks of `protocol` alone where `tasks` are given.
json decisive(const Protocol& protocol, const json& tasks) {
  json value = {{"attentions", protocol.attentions},
                {"attention_settings", protocol.attention_settings},
                {"variants", protocol.variants},
                {"tasks", json::object()}};
  for (const auto& [name, entry] : tasks.items()) {
    if (!protocol.tasks.contains(name)) return {};
    value["tasks"][name] = write_fields(task_settings(protocol, name));
    value["tasks"][name][kAttentions] = attention_settings(protocol, name);
  }
  return value;
}

// A file may bear the name of a built-in protocol only where it says the same.
void check_name(const Protocol& protocol, const std::string& where) {
  if (std::ranges::count(protocol_names(), protocol.name) == 0) return;
  if (differences(decisive(protocol, protocol.tasks),
                  decisive(load_protocol(protocol.name), protocol.tasks))
          .empty())
    return;
  throw UsageError(where + ": the name " + protocol.name +
                   " is a built-in protocol's; choose another, so that records tell them apart");
}

// The file's objects, checked to be such.
void check_objects(const ProtocolFile& file, const std::string& where) {
  if (file.schema.empty() || file.name.empty()) {
    throw UsageError(where + R"( should hold "schema": "lra.protocol/1" and a "name")");
  }
  for (const json* part :
       {&file.settings, &file.tasks, &file.attentions, &file.attention_settings, &file.variants}) {
    if (!part->is_object()) {
      throw UsageError(where +
                       ": settings, tasks, attentions, attention_settings and variants should be "
                       "JSON objects");
    }
  }
}

// Reads every name and value that a protocol holds.
void check_protocol(const Protocol& protocol, const std::string& where) {
  Settings settings;
  read_fields(protocol.settings, settings, where + ": settings");
  for (const auto& [variant, own] : protocol.attention_settings.items()) {
    attention_entry(variant);
    Settings of_variant;
    read_fields(own, of_variant, where + ": attention_settings." + variant);
  }
  for (const auto& [variant, meant] : protocol.variants.items()) {
    if (!meant.is_string()) bad_value(where, "variants." + variant, "the name of a variant", meant);
    attention_entry(variant);
    attention_entry(meant);
  }
  for (const auto& [task_name, entry] : protocol.tasks.items())
    check_task(protocol, task_name, where + ": tasks." + task_name);
  for (const auto& [variant, options] : protocol.attentions.items()) {
    attention_entry(variant).effective_options(options);
  }
}

Protocol load(const std::string& name, std::vector<std::string>& seen) {
  if (std::ranges::find(seen, name) != seen.end()) {
    throw UsageError("protocol " + name + " extends itself through " + seen.back());
  }
  seen.push_back(name);
  const auto [value, where] = load_named_json("protocol", name, embedded_protocols);
  ProtocolFile file;
  read_fields(value, file, where);
  check_objects(file, where);
  Protocol protocol;
  if (!file.extends.empty()) protocol = load(file.extends, seen);
  protocol.name = file.name;
  protocol.title = file.title;
  protocol.description = file.description;
  protocol.source = file.source;
  if (!file.inherit_choices) {
    protocol.follows.clear();
    protocol.choices.clear();
  }
  add_lines(file.follows, "follows", where, protocol.follows);
  add_lines(file.choices, "choices", where, protocol.choices);
  merge(protocol.settings, file.settings);
  merge(protocol.tasks, file.tasks);
  merge(protocol.attentions, file.attentions);
  merge(protocol.attention_settings, file.attention_settings);
  merge(protocol.variants, file.variants);
  check_protocol(protocol, where);
  if (where.starts_with("protocol file")) check_name(protocol, where);
  return protocol;
}

void collect_keys(const json& value, const std::string& path, std::set<std::string>& keys) {
  if (!value.is_object()) {
    keys.insert(path);
    return;
  }
  for (const auto& [key, inner] : value.items())
    collect_keys(inner, path.empty() ? key : path + "." + key, keys);
}

// Sets a.b.c of `object`, or the keys below it that a JSON object gives, and adds them to `keys`;
// throws on text without '='.
void apply_set(json& object, const std::string& text, std::set<std::string>& keys) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError("--set should be key=value, as training.steps=1000, not '" + text + "'");
  }
  const std::string key = text.substr(0, equals);
  json* at = &object;
  size_t begin = 0;
  for (size_t dot = key.find('.'); dot != std::string::npos;
       begin = dot + 1, dot = key.find('.', begin)) {
    at = &(*at)[key.substr(begin, dot - begin)];
    if (!at->is_null() && !at->is_object())
      throw UsageError("--set " + key + ": " + key.substr(0, dot) + " is a value, not a group");
  }
  const json value = value_from_text(text.substr(equals + 1));
  collect_keys(value, key, keys);
  merge(*at, {{key.substr(begin), value}});
}

void check_task_known(const Protocol& protocol, const std::string& task_name) {
  if (protocol.tasks.contains(task_name)) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : protocol.tasks.items()) names.push_back(name);
  throw unknown_name("task", task_name, names, "protocol " + protocol.name);
}

// The name by which a protocol knows a variant: that of a released form is the name it goes by
// there.
std::string plain_name(const std::string& attention) {
  if (attention.empty()) return attention;
  const std::string& form_of = attention_entry(attention).info.released_form_of;
  return form_of.empty() ? attention : form_of;
}

// The part of a protocol for one task and variant; empty where there is none.
AttentionPart attention_part(const Protocol& protocol, const std::string& task_name,
                             const std::string& attention) {
  AttentionPart part;
  const json parts = attention_settings(protocol, task_name);
  if (parts.contains(attention)) read_fields(parts[attention], part, "protocol " + protocol.name);
  return part;
}

json merged_settings(const Protocol& protocol, const std::string& task_name,
                     const std::string& attention) {
  check_task_known(protocol, task_name);
  json own = protocol.tasks[task_name];
  own.erase(kAttentions);
  json merged = protocol.settings;
  merge(merged, own);
  const std::string name = plain_name(attention);
  merge(merged, protocol.attention_settings.value(name, json::object()));
  merge(merged, attention_part(protocol, task_name, name).settings);
  return merged;
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

// Not done unasked: a recipe changes by nothing that its record does not name.
std::string shorter_warmup(int64_t steps) {
  if (steps < 2) return "";
  return ", as --set training.steps=" + std::to_string(steps) +
         " --set schedule.warmup=" + std::to_string(std::max<int64_t>(steps / 5, 1));
}

// What each value alone cannot show.
void check_settings(const Settings& s) {
  const ScheduleOptions& schedule = s.schedule;
  const bool one_cycle = schedule.kind == ScheduleKind::one_cycle;
  if ((one_cycle || schedule.kind == ScheduleKind::rsqrt) && schedule.warmup < 1) {
    throw UsageError("schedule.warmup should be at least 1 where schedule.kind is " +
                     to_string(schedule.kind) + ", not " + std::to_string(schedule.warmup));
  }
  if (one_cycle && schedule.warmup >= s.training.steps) {
    throw UsageError("schedule.warmup (" + std::to_string(schedule.warmup) +
                     ") should be less than training.steps (" + std::to_string(s.training.steps) +
                     "); set both" + shorter_warmup(s.training.steps));
  }
  if (schedule.beta1_low > schedule.beta1_high) {
    throw UsageError("schedule.beta1_low should be at most schedule.beta1_high");
  }
  if (schedule.beta1_high > 0 && !one_cycle) {
    throw UsageError("schedule.beta1_high needs schedule.kind one_cycle, not " +
                     to_string(schedule.kind));
  }
  if (s.model.positions == Positions::sinusoidal && s.model.width % 2 != 0) {
    throw UsageError("model.positions sinusoidal needs an even model.width, not " +
                     std::to_string(s.model.width));
  }
}

}  // namespace

std::vector<std::string> protocol_names() { return embedded_names(embedded_protocols); }

Protocol load_protocol(const std::string& name_or_path) {
  std::vector<std::string> seen;
  return load(name_or_path, seen);
}

json protocol_json(const Protocol& protocol, const std::string& task) {
  json all = {{"schema", kSchema},
              {"name", protocol.name},
              {"title", protocol.title},
              {"description", protocol.description},
              {"source", protocol.source},
              {"follows", protocol.follows},
              {"choices", protocol.choices},
              {"tasks", json::object()},
              {"attentions", protocol.attentions},
              {"attention_settings", protocol.attention_settings},
              {"variants", protocol.variants}};
  const auto add = [&](const std::string& name) {
    all["tasks"][name] = write_fields(task_settings(protocol, name));
    const json parts = attention_settings(protocol, name);
    if (!parts.empty()) all["tasks"][name][kAttentions] = parts;
  };
  if (!task.empty()) {
    add(task);
  } else {
    for (const auto& [key, value] : protocol.tasks.items()) add(key);
  }
  return all;
}

json attention_settings(const Protocol& protocol, const std::string& task_name) {
  check_task_known(protocol, task_name);
  return protocol.tasks[task_name].value(kAttentions, json::object());
}

Settings task_settings(const Protocol& protocol, const std::string& task_name,
                       const std::string& attention) {
  Settings settings;
  read_fields(merged_settings(protocol, task_name, attention), settings,
              "protocol " + protocol.name);
  return settings;
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
                   const std::string& dtype) {
  Config config;
  config.task = task(task_name).name;
  const AttentionSpec attention = meant_attention(protocol, task_name, given);
  config.attention = attention;
  config.protocol = protocol.name;
  config.seed = seed;
  const auto number_type = parse_name<ops::Dtype>(dtype);
  if (!number_type || number_type == ops::Dtype::float64) {
    throw UsageError("--dtype should be float32 or bfloat16, not '" + dtype + "'");
  }
  config.dtype = *number_type;

  json merged = merged_settings(protocol, task_name, attention.name);
  std::set<std::string> keys;
  for (const std::string& text : sets) apply_set(merged, text, keys);
  read_fields(merged, config.settings, sets.empty() ? "protocol " + protocol.name : "--set");
  check_settings(config.settings);
  task(task_name, config.settings.input.brackets);
  const TrainingDtype wanted = config.settings.training.dtype;
  if (wanted != TrainingDtype::any && to_string(wanted) != dtype) {
    throw UsageError("training.dtype is " + to_string(wanted) + " in protocol " + protocol.name +
                     ": give --dtype " + to_string(wanted) + ", or --set training.dtype=any");
  }
  const json now = write_fields(config.settings),
             own = write_fields(task_settings(protocol, task_name, attention.name));
  for (const std::string& key : keys) {
    std::string path = "/" + key;
    std::ranges::replace(path, '.', '/');
    const json::json_pointer at(path);
    if (now.at(at) != own.at(at)) config.overridden.push_back(key);
  }
  config.by_attention = keys_by_attention(protocol, task_name);

  json options = protocol.attentions.value(attention.name, json::object());
  const AttentionPart part = attention_part(protocol, task_name, plain_name(attention.name));
  merge(options, part.options);
  merge(options, attention.options);
  config.attention_options = attention_entry(attention.name).effective_options(options);
  return config;
}

}  // namespace lra
