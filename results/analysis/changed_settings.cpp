#include "results/analysis/changed_settings.h"

#include <algorithm>
#include <set>

#include "results/records/json_line.h"

namespace lra {
namespace {

constexpr std::string_view kRoundingOnly[] = {"training.micro_batch", "training.log_every",
                                              "training.checkpoint_every", "kernels", "execution"};

// Whether the value in effect is this one; of a value that is not known, true.
bool has_value(const Result& result, const std::string& key, const std::string& said,
               const json& value) {
  if (const json* held = result.setting(key)) return *held == value;
  return said.empty() || said == json_line(value) || value == said;
}

// A budget shortens the run before by what it sets for the run itself.
std::string without_stage(const std::string& key) {
  constexpr std::string_view kStage = "pretraining.";
  return key.starts_with(kStage) ? key.substr(kStage.size()) : key;
}

// Of a task that it does not name the key decides.
bool is_of_budget(const Result& result, const RunBudget& budget, const std::string& key,
                  const std::string& said) {
  const auto of_task = budget.set.find(result.task);
  if (of_task == budget.set.end()) return sets_key(budget, key);
  const auto set = of_task->second.find(without_stage(key));
  return set != of_task->second.end() && has_value(result, key, said, set->second);
}

// Whether the run's protocol gives attentions values of their own of this setting, of its task.
bool is_by_attention(const Result& result, const std::string& key) {
  const auto keys = result.config.find("by_attention");
  return keys != result.config.end() && keys->is_array() &&
         std::ranges::count(*keys, json(key)) > 0;
}

}  // namespace

bool rounds_only(std::string_view key) { return std::ranges::count(kRoundingOnly, key) > 0; }

std::pair<std::string, std::string> split_override(const std::string& text) {
  const size_t equals = text.find('=');
  return {text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
}

std::vector<std::string> overridden_settings(const Result& result) {
  std::vector<std::string> settings = result.overridden();
  std::erase_if(settings,
                [](const std::string& text) { return rounds_only(split_override(text).first); });
  return settings;
}

std::vector<ChangedSetting> changed_settings(const Result& result, const RunBudget& budget) {
  std::vector<ChangedSetting> changed;
  std::set<std::string> keys;
  for (const std::string& text : overridden_settings(result)) {
    const auto [key, value] = split_override(text);
    keys.insert(key);
    changed.push_back({key, value, is_of_budget(result, budget, key, value)});
  }
  const auto of_task = budget.set.find(result.task);
  if (of_task == budget.set.end()) return changed;
  for (const auto& [key, set] : of_task->second) {
    const json* value = result.setting(key);
    if (value != nullptr && *value != set && !keys.contains(key) && !rounds_only(key) &&
        !is_by_attention(result, key))
      changed.push_back({.key = key, .value = json_line(*value)});
  }
  return changed;
}

std::map<std::string, std::string> values_over_budget(const Result& result,
                                                      const RunBudget& budget) {
  std::map<std::string, std::string> values;
  const auto of_task = budget.set.find(result.task);
  if (of_task == budget.set.end()) return values;
  const std::vector<std::string> overridden = overridden_settings(result);
  const auto is_overridden = [&](const std::string& key) {
    return std::ranges::any_of(
        overridden, [&](const std::string& text) { return split_override(text).first == key; });
  };
  for (const auto& [key, set] : of_task->second) {
    const json* value = result.setting(key);
    if (value != nullptr && *value != set && is_by_attention(result, key) && !rounds_only(key) &&
        !is_overridden(key))
      values[key] = json_line(*value);
  }
  return values;
}

void forget_budget(Result& result, const RunBudget& budget) {
  std::set<std::string> own;
  for (const ChangedSetting& changed : changed_settings(result, budget)) {
    if (changed.of_budget && is_by_attention(result, changed.key)) own.insert(changed.key);
  }
  if (!own.empty()) {
    json kept = json::array();
    for (const std::string& text : result.overridden()) {
      if (!own.contains(split_override(text).first)) kept.push_back(text);
    }
    result.config["overridden"] = kept;
  }
  result.budget = {};
}

bool sets_key(const RunBudget& budget, const std::string& key) {
  return std::ranges::any_of(budget.set, [own = without_stage(key)](const auto& task) {
    return task.second.contains(own);
  });
}

}  // namespace lra
