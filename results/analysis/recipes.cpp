// Splits results into what may be compared.
#include "results/analysis/recipes.h"
#include "results/records/json_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "embedded_earlier.h"

namespace lra {
namespace {

// What makes a run itself and not its recipe, and what changes no number of it but by rounding.
constexpr std::string_view kNotSettings[] = {"task",  "attention",  "protocol",    "seed",
                                             "dtype", "overridden", "by_attention"};
constexpr std::string_view kRoundingOnly[] = {"training.micro_batch", "training.log_every",
                                              "training.checkpoint_every", "kernels"};

using Recipe = std::tuple<std::string, std::string, bool,
                          std::vector<std::string>>;  // protocol, dtype, synthetic, keys
using Settings = std::map<std::string, std::string>;  // dotted key -> value
using Identity = std::pair<std::string, Settings>;    // fingerprint, settings

bool among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void flatten(const json& value, const std::string& path, Settings& settings) {
  if (!value.is_object()) {
    if (!among(path, kRoundingOnly)) settings[path] = json_line(value);
    return;
  }
  for (const auto& [key, inner] : value.items()) {
    if (path.empty() && among(key, kNotSettings)) continue;
    flatten(inner, path.empty() ? key : path + "." + key, settings);
  }
}

std::pair<std::string, std::string> split_override(const std::string& text) {
  const size_t equals = text.find('=');
  return {text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
}

// Settings that came after the first records, and what runs did before.
const Settings& settings_since() {
  static const Settings since = [] {
    Settings values;
    for (const auto& [stem, text] : embedded_earlier) {
      if (stem == "settings") flatten(json::parse(text), "", values);
    }
    return values;
  }();
  return since;
}

Settings settings_of(const Result& r) {
  Settings settings;
  flatten(r.config, "", settings);
  if (settings.empty()) return settings;
  settings.insert(settings_since().begin(), settings_since().end());
  // What the protocol itself gives every variant its own value of belongs to the variant.
  std::set<std::string> own;
  if (const auto it = r.config.find("by_attention"); it != r.config.end() && it->is_array()) {
    for (const json& key : *it) {
      if (key.is_string()) own.insert(key.get<std::string>());
    }
  }
  for (const std::string& text : r.overridden()) own.erase(split_override(text).first);
  for (const std::string& key : own) settings.erase(key);
  return settings;
}

Recipe recipe_of(const Result& r, bool synthetic) {
  std::vector<std::string> keys;
  for (const std::string& text : overridden_settings(r)) keys.push_back(split_override(text).first);
  return {r.protocol, r.dtype(), synthetic, keys};
}

// "key=value", with the tasks named where their values differ.
std::vector<std::string> by_key(
    const std::map<std::string, std::map<std::string, std::set<std::string>>>& values) {
  std::vector<std::string> texts;
  for (const auto& [key, by_value] : values) {
    std::string text;
    for (const auto& [value, tasks] : by_value) {
      if (!text.empty()) text += ", ";
      text += value;
      if (by_value.size() > 1) text += fmt::format(" ({})", fmt::join(tasks, ", "));
    }
    texts.push_back(text.empty() ? key : key + "=" + text);
  }
  return texts;
}

// The overridden keys with their values, of all results of a group.
std::vector<std::string> overridden_of(const RecipeGroup& group) {
  std::map<std::string, std::map<std::string, std::set<std::string>>>
      values;  // key -> value -> tasks
  for (const Result* r : group.results) {
    for (const std::string& text : overridden_settings(*r)) {
      const auto [key, value] = split_override(text);
      values[key][value].insert(r->task);
    }
  }
  return by_key(values);
}

// The groups of one recipe: group i takes the i-th identity of every task.
std::vector<RecipeGroup> split(const Recipe& recipe, const std::vector<const Result*>& members) {
  std::map<std::string, std::set<Identity>> identities;  // by task
  for (const Result* r : members) {
    auto& of_task = identities[r->task];
    if (!r->data.fingerprint.empty()) of_task.emplace(r->data.fingerprint, settings_of(*r));
  }
  std::map<const Result*, Identity> own;
  for (const Result* r : members) {
    Identity identity{r->data.fingerprint, settings_of(*r)};
    auto& of_task = identities[r->task];
    if (identity.first.empty()) {
      const auto place = std::find_if(of_task.begin(), of_task.end(), [&](const Identity& known) {
        return identity.second.empty() || known.second == identity.second;
      });
      if (place == of_task.end()) {
        of_task.insert(identity);
      } else {
        identity = *place;
      }
    }
    own[r] = identity;
  }

  size_t count = 0;
  for (const auto& [task, of_task] : identities) count = std::max(count, of_task.size());
  std::vector<RecipeGroup> groups(count);
  for (RecipeGroup& group : groups)
    std::tie(group.protocol, group.dtype, group.synthetic, group.overridden) = recipe;
  for (const Result* r : members) {
    const auto& of_task = identities[r->task];
    const auto at = std::distance(of_task.begin(), of_task.find(own[r]));
    RecipeGroup& group = groups[static_cast<size_t>(at)];
    group.fingerprints[r->task] = own[r].first;
    group.results.push_back(r);
  }
  for (RecipeGroup& group : groups) {
    std::map<std::string, std::map<std::string, std::set<std::string>>>
        differing;  // key -> value -> tasks
    for (const Result* r : group.results) {
      for (const auto& [key, value] : own[r].second) {
        const auto same = [&key = key, &value = value](const Identity& other) {
          const auto it = other.second.find(key);
          return it != other.second.end() && it->second == value;
        };
        const auto& of_task = identities[r->task];
        const bool listed = std::find(group.overridden.begin(), group.overridden.end(), key) !=
                            group.overridden.end();
        if (!listed && !std::all_of(of_task.begin(), of_task.end(), same))
          differing[key][value].insert(r->task);
      }
    }
    group.settings = by_key(differing);
    group.overridden = overridden_of(group);
  }
  return groups;
}

}  // namespace

std::vector<std::string> overridden_settings(const Result& result) {
  std::vector<std::string> settings = result.overridden();
  std::erase_if(settings, [](const std::string& text) {
    return among(split_override(text).first, kRoundingOnly);
  });
  return settings;
}

std::vector<RecipeGroup> group_by_recipe(std::span<const Result> results) {
  std::set<Recipe> with_data;
  for (const Result& r : results) {
    if (!r.data.fingerprint.empty()) with_data.insert(recipe_of(r, r.data.synthetic));
  }
  std::map<Recipe, std::vector<const Result*>> recipes;
  for (const Result& r : results) {
    // A run that ended before it read its data does not know whether that is stand-in data.
    const bool flip = r.data.fingerprint.empty() &&
                      !with_data.contains(recipe_of(r, r.data.synthetic)) &&
                      with_data.contains(recipe_of(r, !r.data.synthetic));
    recipes[recipe_of(r, r.data.synthetic != flip)].push_back(&r);
  }
  std::vector<RecipeGroup> groups;
  for (const auto& [recipe, members] : recipes) {
    for (RecipeGroup& group : split(recipe, members)) groups.push_back(std::move(group));
  }
  return groups;
}

std::string recipe_text(const RecipeGroup& group, const std::vector<std::string>& tasks) {
  std::string text = "protocol " + group.protocol;
  if (!group.overridden.empty())
    text += fmt::format(" (overridden: {})", fmt::join(group.overridden, ", "));
  if (!group.settings.empty()) text += fmt::format(" (with {})", fmt::join(group.settings, ", "));
  if (!group.dtype.empty()) text += ", " + group.dtype;
  if (group.synthetic) text += ", synthetic data";
  std::vector<std::string> prints;
  for (const std::string& task : tasks) {
    const std::string& print = group.fingerprints.at(task);
    prints.push_back(task + " " + (print.empty() ? "unknown" : print.substr(0, 8)));
  }
  return text + fmt::format(", data {}", fmt::join(prints, ", "));
}

std::map<const Result*, std::string> row_names(const RecipeGroup& group) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>>
      options;  // (label, task) -> options
  std::map<std::string, std::vector<const Result*>> by_label;
  for (const Result* r : group.results) {
    if (!r->attention.options.empty())
      options[{r->attention.label, r->task}].insert(json_line(r->attention.options));
    by_label[r->attention.label].push_back(r);
  }
  std::map<const Result*, std::string> names;
  for (const auto& [label, members] : by_label) {
    const auto several = [&, &name = label](const Result* r) {
      return options[{name, r->task}].size() > 1;
    };
    const bool apart = std::any_of(members.begin(), members.end(), several);
    for (const Result* r : members) {
      std::string extra;
      for (const auto& [key, value] : r->attention.options.items()) {
        const auto same = [&key = key, &value = value](const Result* other) {
          const auto it = other->attention.options.find(key);
          return it != other->attention.options.end() && *it == value;
        };
        if (apart && !std::all_of(members.begin(), members.end(), same)) {
          extra += fmt::format("{}{}={}", extra.empty() ? "" : ", ", key, json_line(value));
        }
      }
      names[r] = !extra.empty() ? fmt::format("{} {{{}}}", label, extra) : label;
    }
  }
  return names;
}

}  // namespace lra
