#include "lra/config/config.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "attention_variants/base/json_text.h"
#include "attention_variants/base/own_file.h"
#include "attention_variants/base/text.h"
#include "embedded_earlier.h"
#include "lra/config/embedded.h"
#include "lra/data/task.h"

namespace lra {
namespace {

// Settings that came after the first runs, by path, and what those did.
const json& settings_since() {
  static const json since = load_named_json("earlier", "settings", embedded_earlier).value;
  return since;
}

// Options of variants that came after the first runs, by variant, and what those did.
const json& options_since() {
  static const json since = load_named_json("earlier", "options", embedded_earlier).value;
  return since;
}

// Without the options that hold what runs did before there were such.
void erase_earlier_options(json& config) {
  const json::json_pointer name("/attention/name"), options("/attention/options");
  if (!config.contains(name) || !config.at(name).is_string() || !config.contains(options)) return;
  const json since = options_since().value(config.at(name).get<std::string>(), json::object());
  for (const auto& [key, before] : since.items()) {
    json& given = config.at(options);
    if (given.is_object() && given.contains(key) && given[key] == before) given.erase(key);
  }
}

// A task's name from a file, which would be a path to its data.
std::string task_named(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Task* known : tasks()) names.push_back(known->name);
  if (std::ranges::count(names, name) > 0) return name;
  // A UsageError would be of the command rather than of a file.
  throw Error(unknown_name("task", printable(name, 100), names, where).what());
}

}  // namespace

json Config::to_json() const {
  json given = attention.options, options = attention_options;
  for (json* of : {&given, &options}) {
    if (!named_file.empty() && of->contains("file")) (*of)["file"] = named_file;
  }
  json value = {{"task", task},
                {"attention", {{"name", attention.name}, {"given", given}, {"options", options}}},
                {"protocol", protocol},
                {"regime", regime},
                {"seed", seed},
                {"dtype", to_string(dtype)}};
  value.update(write_fields(settings));
  value["overridden"] = overridden;
  value["by_attention"] = by_attention;
  if (!pretrained.empty()) value["pretrained"] = pretrained;
  return value;
}

json config_identity(json config) {
  if (!config.is_object()) return config;  // of a file that is not what it should be
  config.erase("overridden");              // its values are there themselves
  config.erase("regime");                  // the protocol's
  config.erase("execution");               // how steps are launched: training.execution of a record
  erase_earlier_options(config);
  if (config.contains("pretrained") && config["pretrained"].is_object())
    config["pretrained"] = config["pretrained"].value("sha256", "");
  for (const auto& [key, before] : settings_since().items()) {
    const json::json_pointer at = dotted_pointer(key);
    if (config.contains(at) && config.at(at) == before)
      config.at(at.parent_pointer()).erase(at.back());
  }
  return config;
}

std::string config_differences(json a, json b) {
  a = config_identity(std::move(a));
  b = config_identity(std::move(b));
  if (!a.is_object() || !b.is_object()) return differences_text(a, b);
  // Left out of the identity where it is what runs did before there was the setting.
  for (const auto& [key, before] : settings_since().items()) {
    const json::json_pointer at = dotted_pointer(key);
    if (a.contains(at) == b.contains(at)) continue;
    json& without = a.contains(at) ? b : a;
    if (without.contains(at.parent_pointer()) && without.at(at.parent_pointer()).is_object())
      without[at] = before;
  }
  // What a protocol gives other attentions; what it gives this one is there itself.
  for (json* of : {&a, &b}) of->erase("by_attention");
  const json::json_pointer given("/attention/given/file"), file("/attention/options/file"),
      hash("/attention/options/sha256");
  const auto name = [&file](const json& of) {
    return std::filesystem::path(of.value(file, std::string())).filename();
  };
  const std::string same = a.value(hash, std::string());
  if (!same.empty() && same == b.value(hash, std::string()) && name(a) == name(b)) {
    for (const json::json_pointer& at : {given, file}) {
      if (a.contains(at) && b.contains(at)) a[at] = b[at];
    }
  }
  return differences_text(a, b);
}

Config Config::from_json(const json& value, const std::string& where) {
  Config config;
  try {
    config.task = task_named(value.at("task"), where);
    config.attention = {.name = value.at("attention").at("name"),
                        .options = value.at("attention").at("given")};
    config.attention_options = value.at("attention").at("options");
    config.protocol = value.at("protocol");
    config.seed = value.at("seed");
    const std::string dtype = value.at("dtype");
    const auto number_type = parse_name<ops::Dtype>(dtype);
    if (!number_type) throw Error(where + " is not a run's configuration: dtype '" + dtype + "'");
    config.dtype = *number_type;
    config.overridden = value.at("overridden").get<std::vector<std::string>>();
    // Runs from before protocols had regimes, or entries for variants, lack these.
    config.regime = value.value("regime", std::string(kFirstRegime));
    config.by_attention = value.value("by_attention", std::vector<std::string>{});
    config.pretrained = value.value("pretrained", json::object());
  } catch (const json::exception& e) {
    const std::string said = e.what();  // "[json.exception.type_error.302] type must be ..."
    throw Error(where + " is not a run's configuration: " + said.substr(said.find("] ") + 2) +
                "; put back what it was, or train anew with --overwrite");
  }
  json rest = json::object();
  for (const std::string& name : field_names(config.settings)) {
    if (value.contains(name)) {
      rest[name] = value[name];
    } else if (settings_since().contains(name)) {
      rest[name] = settings_since()[name];
    } else {
      throw Error(where + " is not a run's configuration: no '" + name + "'");
    }
  }
  read_own([&] { read_fields(rest, config.settings, where); });
  return config;
}

}  // namespace lra
