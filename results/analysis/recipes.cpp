// Splits results into what may be compared.
#include "results/analysis/recipes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "results/analysis/changed_settings.h"
#include "results/analysis/identities.h"

namespace lra {
namespace {

struct Recipe {
  std::string protocol, regime, dtype;
  std::string budget, budget_tasks;  // as RunBudget
  DottedSettings over;               // of what the suite set over the budget, what changed a run
  bool synthetic = false;            // false for all of a budget's: its tasks may differ in it
  std::vector<std::string> keys;     // overridden, but for those that the budget sets

  auto operator<=>(const Recipe&) const = default;
};

// What suites set over their budget, of that what gave a run another value than the budget's.
class SetOverBudgets {
 public:
  void add(const Result& r, const RunBudget& budget) {
    if (budget.over.empty()) return;
    std::set<std::string>& keys = keys_[of_suite(budget)];
    for (ChangedSetting& changed : changed_settings(r, budget)) {
      if (!changed.of_budget) keys.insert(std::move(changed.key));
    }
  }

  DottedSettings of(const RunBudget& budget) const {
    if (budget.over.empty()) return {};
    const auto found = keys_.find(of_suite(budget));
    if (found == keys_.end() || found->second.empty()) return {};
    DottedSettings over = budget.over;
    std::erase_if(over, [&](const auto& entry) {
      return entry.first != RunBudget::kCut && !found->second.contains(entry.first);
    });
    return over;
  }

 private:
  using OfSuite = std::tuple<std::string, std::string, DottedSettings>;
  static OfSuite of_suite(const RunBudget& budget) {
    return {budget.name, budget.tasks, budget.over};
  }

  std::map<OfSuite, std::set<std::string>> keys_;
};

Recipe recipe_of(const Result& r, const RunBudget& budget, const SetOverBudgets& over,
                 bool synthetic) {
  Recipe recipe{.protocol = r.protocol,
                .regime = r.regime,
                .dtype = r.dtype(),
                .budget = budget.name,
                .budget_tasks = budget.tasks,
                .over = over.of(budget),
                .synthetic = synthetic && !budget.known(),
                .keys = {}};
  for (const std::string& text : overridden_settings(r)) {
    std::string key = split_override(text).first;
    if (!sets_key(budget, key)) recipe.keys.push_back(std::move(key));
  }
  return recipe;
}

using TasksOfValues =
    std::map<std::string, std::map<std::string, std::set<std::string>>>;  // key -> value -> tasks

// "key=value", with the tasks named where not all of them have that value.
std::vector<std::string> by_key(const TasksOfValues& values, size_t tasks_in_all) {
  std::vector<std::string> texts;
  for (const auto& [key, by_value] : values) {
    std::string text;
    for (const auto& [value, tasks] : by_value) {
      if (!text.empty()) text += ", ";
      text += value;
      if (tasks.size() < tasks_in_all) text += fmt::format(" ({})", fmt::join(tasks, ", "));
    }
    texts.push_back(text.empty() ? key : key + "=" + text);
  }
  return texts;
}

// The changed keys with their values, of all results of a group: those that its budget set so, or
// the others.
std::vector<std::string> changed_of(const RecipeGroup& group, bool of_budget) {
  TasksOfValues values;
  std::set<std::string> tasks;
  for (const Result* r : group.results) {
    tasks.insert(r->task);
    for (const ChangedSetting& changed : changed_settings(*r, group.budget)) {
      if (changed.of_budget == of_budget) values[changed.key][changed.value].insert(r->task);
    }
  }
  return by_key(values, tasks.size());
}

// The protocol's values for attentions that stand in place of the budget's.
std::vector<std::string> over_budget_of(const RecipeGroup& group) {
  std::map<std::string, std::set<std::string>> of;  // "key=value" -> attentions
  for (const Result* r : group.results) {
    for (const auto& [key, value] : values_over_budget(*r, group.budget))
      of[key + "=" + value].insert(r->attention.label);
  }
  std::vector<std::string> texts;
  for (const auto& [text, attentions] : of)
    texts.push_back(fmt::format("{} ({})", text, fmt::join(attentions, ", ")));
  return texts;
}

// What tells a group apart from the others of its recipe besides changed keys, and those keys.
void name_settings(const Identities& identities, const OwnIdentity& own, RecipeGroup& group) {
  TasksOfValues differing;
  std::set<std::string> tasks;
  for (const Result* r : group.results) {
    tasks.insert(r->task);
    const std::vector<ChangedSetting> changed = changed_settings(*r, group.budget);
    for (const auto& [key, value] : own.at(r).second) {
      const auto same = [&key = key, &value = value](const Identity& other) {
        const auto it = other.second.find(key);
        return it != other.second.end() && it->second == value;
      };
      const bool listed = std::ranges::count(changed, key, &ChangedSetting::key) > 0;
      if (!listed && !std::ranges::all_of(identities.at(r->task), same))
        differing[key][value].insert(r->task);
    }
  }
  group.settings = by_key(differing, tasks.size());
  group.overridden = changed_of(group, /*of_budget=*/false);
  group.of_budget = changed_of(group, /*of_budget=*/true);
  group.over_budget = over_budget_of(group);
}

// The groups of one recipe, each of at most one identity of a task.
std::vector<RecipeGroup> split(const Recipe& recipe, const RunBudget& budget,
                               const std::vector<const Result*>& members) {
  Identities identities;
  const OwnIdentity own = own_identities(members, budget, identities);
  const IdentityLabels labels = identity_labels(identities, own);
  // By the place of its identities among those of their tasks, then by label.
  std::map<std::string, size_t> places;  // of a label, the first
  const auto place = [&](const Result* r) {
    const auto& of_task = identities.at(r->task);
    return static_cast<size_t>(std::distance(of_task.begin(), of_task.find(own.at(r))));
  };
  const auto label = [&](const Result* r) { return labels.at({r->task, own.at(r)}); };
  for (const Result* r : members) {
    const auto at = places.try_emplace(label(r), place(r)).first;
    at->second = std::min(at->second, place(r));
  }
  std::map<std::pair<size_t, std::string>, RecipeGroup> groups;
  for (const Result* r : members) {
    RecipeGroup& group = groups[{places.at(label(r)), label(r)}];
    group.fingerprints[r->task] = own.at(r).first;
    const bool read_data = !r->data.fingerprint.empty();
    if (recipe.synthetic || (read_data && r->data.synthetic)) group.synthetic.insert(r->task);
    if (const std::string variant = r->data.variant(); !variant.empty())
      group.variants[r->task] = variant;
    if (!r->data.unlike.empty())
      group.unlike[r->task] = fmt::format("{}", fmt::join(r->data.unlike, "; "));
    group.results.push_back(r);
  }
  std::vector<RecipeGroup> ordered;
  for (auto& [at, group] : groups) {
    group.protocol = recipe.protocol;
    group.regime = recipe.regime;
    group.dtype = recipe.dtype;
    group.budget = budget;
    name_settings(identities, own, group);
    ordered.push_back(std::move(group));
  }
  return ordered;
}

}  // namespace

std::map<const Result*, const RunBudget*> budgets_of(std::span<const Result> results) {
  std::map<std::pair<Recipe, Identity>, const RunBudget*> known;
  const auto cell_of = [](const Result& r) {
    return std::pair(recipe_of(r, RunBudget{}, {}, r.data.synthetic),
                     Identity(r.task + " " + r.data.fingerprint, settings_of(r, RunBudget{})));
  };
  const bool any = std::ranges::any_of(results, [](const Result& r) { return r.budget.known(); });
  for (const Result& r : results) {
    if (r.budget.known() && !r.data.fingerprint.empty()) known.try_emplace(cell_of(r), &r.budget);
  }
  std::map<const Result*, const RunBudget*> budgets;
  for (const Result& r : results) {
    budgets[&r] = &r.budget;
    if (!any || r.budget.known()) continue;
    if (const auto it = known.find(cell_of(r)); it != known.end()) budgets[&r] = it->second;
  }
  return budgets;
}

std::vector<RecipeGroup> group_by_recipe(std::span<const Result> results) {
  const auto budgets = budgets_of(results);
  SetOverBudgets over;
  for (const auto& [r, budget] : budgets) over.add(*r, *budget);
  const auto recipe = [&](const Result& r, bool synthetic) {
    return recipe_of(r, *budgets.at(&r), over, synthetic);
  };
  std::set<Recipe> with_data;
  for (const Result& r : results) {
    if (!r.data.fingerprint.empty()) with_data.insert(recipe(r, r.data.synthetic));
  }
  std::map<Recipe, std::vector<const Result*>> recipes;
  for (const Result& r : results) {
    // A run that ended before it read its data does not know whether that is stand-in data.
    const bool flip = r.data.fingerprint.empty() &&
                      !with_data.contains(recipe(r, r.data.synthetic)) &&
                      with_data.contains(recipe(r, !r.data.synthetic));
    recipes[recipe(r, r.data.synthetic != flip)].push_back(&r);
  }
  std::vector<RecipeGroup> groups;
  for (const auto& [key, members] : recipes) {
    for (RecipeGroup& group : split(key, *budgets.at(members.front()), members))
      groups.push_back(std::move(group));
  }
  for (size_t i = 0; groups.size() > 1 && i < groups.size(); ++i) {
    groups[i].number = i + 1;
    groups[i].beside_other_regimes = std::ranges::any_of(
        groups, [&](const RecipeGroup& other) { return other.regime != groups[i].regime; });
  }
  return groups;
}

}  // namespace lra
