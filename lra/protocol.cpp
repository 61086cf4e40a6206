#include "lra/protocol.h"

#include <algorithm>
#include <set>

#include "embedded_protocols.h"
#include "lra/embedded.h"
#include "lra/task.h"

namespace lra {
namespace {

struct ProtocolFile {
  std::string schema, name, title, description, source, extends;
  json settings = json::object(), tasks = json::object(), attentions = json::object();

  template <class Fields>
  void fields(Fields& f) {
    f("schema", schema, one_of({"lra.protocol/1"}));
    f("name", name);
    f("title", title);
    f("description", description);
    f("source", source);
    f("extends", extends);
    f("settings", settings);
    f("tasks", tasks);
    f("attentions", attentions);
  }
};

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

Protocol load(const std::string& name, std::vector<std::string>& seen) {
  if (std::ranges::find(seen, name) != seen.end()) {
    throw UsageError("protocol " + name + " extends itself through " + seen.back());
  }
  seen.push_back(name);
  const auto [value, where] = load_named_json("protocol", name, embedded_protocols);
  ProtocolFile file;
  read_fields(value, file, where);
  if (where.starts_with("protocol file") && std::ranges::count(protocol_names(), file.name) > 0) {
    throw UsageError(where + ": the name " + file.name +
                     " is a built-in protocol's; choose another, so that records tell them apart");
  }
  if (file.schema.empty() || file.name.empty()) {
    throw UsageError(where + R"( should hold "schema": "lra.protocol/1" and a "name")");
  }
  for (const json* part : {&file.settings, &file.tasks, &file.attentions}) {
    if (!part->is_object())
      throw UsageError(where + ": settings, tasks and attentions should be JSON objects");
  }
  Protocol protocol;
  if (!file.extends.empty()) protocol = load(file.extends, seen);
  protocol.name = file.name;
  protocol.title = file.title;
  protocol.description = file.description;
  protocol.source = file.source;
  merge(protocol.settings, file.settings);
  merge(protocol.tasks, file.tasks);
  merge(protocol.attentions, file.attentions);

  Settings settings;
  read_fields(protocol.settings, settings, where + ": settings");
  for (const auto& [task_name, of_task_json] : protocol.tasks.items()) {
    task(task_name);
    Settings of_task;
    read_fields(of_task_json, of_task, where + ": tasks." + task_name);
  }
  for (const auto& [variant, options] : protocol.attentions.items()) {
    attention_entry(variant).effective_options(options);
  }
  return protocol;
}

// Sets a.b.c of `object` and returns its key; throws on text without '='.
std::string apply_set(json& object, const std::string& text) {
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
  (*at)[key.substr(begin)] = value_from_text(text.substr(equals + 1));
  return key;
}

json merged_settings(const Protocol& protocol, const std::string& task_name) {
  if (!protocol.tasks.contains(task_name)) {
    std::vector<std::string> names;
    for (const auto& [name, value] : protocol.tasks.items()) names.push_back(name);
    throw unknown_name("task", task_name, names, "protocol " + protocol.name);
  }
  json merged = protocol.settings;
  merge(merged, protocol.tasks[task_name]);
  return merged;
}

void check_settings(const Settings& s) {
  if (s.schedule.warmup >= s.training.steps) {
    throw UsageError("schedule.warmup (" + std::to_string(s.schedule.warmup) +
                     ") should be less than training.steps (" + std::to_string(s.training.steps) +
                     "); set both");
  }
  if (s.schedule.beta1_low > s.schedule.beta1_high) {
    throw UsageError("schedule.beta1_low should be at most schedule.beta1_high");
  }
}

void collect_differences(const json& a, const json& b, const std::string& path,
                         std::vector<std::string>& out) {
  if (a.is_object() && b.is_object()) {
    std::set<std::string> done;
    for (const json* side : {&a, &b}) {
      for (const auto& [key, value] : side->items()) {
        if (!done.insert(key).second) continue;
        const json left = a.contains(key) ? a[key] : json();
        const json right = b.contains(key) ? b[key] : json();
        collect_differences(left, right, path.empty() ? key : path + "." + key, out);
      }
    }
  } else if (a != b) {
    out.push_back(path + ": " + a.dump() + " -> " + b.dump());
  }
}

}  // namespace

std::vector<std::string> protocol_names() { return embedded_names(embedded_protocols); }

Protocol load_protocol(const std::string& name_or_path) {
  std::vector<std::string> seen;
  return load(name_or_path, seen);
}

Settings task_settings(const Protocol& protocol, const std::string& task_name) {
  Settings settings;
  read_fields(merged_settings(protocol, task_name), settings, "protocol " + protocol.name);
  return settings;
}

Config make_config(const Protocol& protocol, const std::string& task_name,
                   const AttentionSpec& attention, const std::vector<std::string>& sets,
                   uint64_t seed, const std::string& dtype) {
  Config config;
  config.task = task(task_name).name;
  config.attention = attention;
  config.protocol = protocol.name;
  config.seed = seed;
  if (dtype != "float32" && dtype != "bfloat16") {
    throw UsageError("--dtype should be float32 or bfloat16, not '" + dtype + "'");
  }
  config.dtype = dtype;

  json merged = merged_settings(protocol, task_name);
  for (const std::string& text : sets) config.overridden.push_back(apply_set(merged, text));
  read_fields(merged, config.settings, sets.empty() ? "protocol " + protocol.name : "--set");
  check_settings(config.settings);

  json options = protocol.attentions.value(attention.name, json::object());
  merge(options, attention.options);
  config.attention_options = attention_entry(attention.name).effective_options(options);
  return config;
}

json Config::to_json() const {
  json value = {
      {"task", task},
      {"attention",
       {{"name", attention.name}, {"given", attention.options}, {"options", attention_options}}},
      {"protocol", protocol},
      {"seed", seed},
      {"dtype", dtype}};
  value.update(write_fields(settings));
  value["overridden"] = overridden;
  return value;
}

Config Config::from_json(const json& value, const std::string& where) {
  Config config;
  try {
    config.task = value.at("task");
    config.attention = {.name = value.at("attention").at("name"),
                        .options = value.at("attention").at("given")};
    config.attention_options = value.at("attention").at("options");
    config.protocol = value.at("protocol");
    config.seed = value.at("seed");
    config.dtype = value.at("dtype");
    config.overridden = value.at("overridden").get<std::vector<std::string>>();
  } catch (const json::exception& e) {
    throw Error(where + " is not a run's configuration: " + e.what());
  }
  json rest = json::object();
  for (const std::string& name : field_names<Settings>()) {
    if (!value.contains(name))
      throw Error(where + " is not a run's configuration: no '" + name + "'");
    rest[name] = value[name];
  }
  read_fields(rest, config.settings, where);
  return config;
}

std::vector<std::string> differences(const json& a, const json& b) {
  std::vector<std::string> out;
  collect_differences(a, b, "", out);
  return out;
}

std::string differences_text(const json& a, const json& b) {
  const std::vector<std::string> all = differences(a, b);
  if (all.empty()) return "";
  return all.front() + (all.size() > 1 ? " and " + std::to_string(all.size() - 1) + " more" : "");
}

}  // namespace lra
