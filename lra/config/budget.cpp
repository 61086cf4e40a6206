#include "lra/config/budget.h"

#include <fmt/format.h>

#include <sstream>

#include "embedded_budgets.h"
#include "lra/config/embedded.h"
#include "lra/config/preset.h"
#include "lra/data/task.h"

namespace lra {

std::vector<std::string> budget_names() { return embedded_names(embedded_budgets); }

Budget load_budget(const std::string& name_or_path) {
  const LoadedJson file = load_named_json("budget", name_or_path, embedded_budgets);
  Budget budget;
  read_fields(file.value, budget, file.where);
  if (budget.schema.empty() || budget.name.empty()) {
    throw UsageError(
        fmt::format(R"({} should hold "schema": "lra.budget/1" and a "name")", file.where));
  }
  for (const auto& [name, value] : budget.tasks.items()) {
    lra::task(name);
    budget.task(name);
  }
  for (const std::string& name : budget.default_tasks()) budget.task(name);
  load_preset(budget.profile.preset);
  budget.profile.length_list(file.where);
  return budget;
}

std::vector<int64_t> ProfileBudget::length_list(const std::string& where) const {
  std::vector<int64_t> list;
  std::istringstream in(lengths);
  for (std::string length; std::getline(in, length, ',');) {
    const json value = value_from_text(length);
    if (!value.is_number_integer() || value < 1 || value > int64_t{1} << 24) {
      throw UsageError(
          fmt::format("{}: profile.lengths should be a comma list of integers from 1 "
                      "to 16777216, not '{}'",
                      where, lengths));
    }
    list.push_back(value);
  }
  if (list.empty()) throw UsageError(fmt::format("{}: profile.lengths names no length", where));
  return list;
}

TaskBudget Budget::task(const std::string& task_name) const {
  if (!tasks.contains(task_name)) {
    std::vector<std::string> names;
    for (const auto& [key, value] : tasks.items()) names.push_back(key);
    throw unknown_name("task", task_name, names, fmt::format("budget {}", name));
  }
  TaskBudget entry;
  const std::string where = fmt::format("budget {}: tasks.{}", name, task_name);
  read_fields(tasks[task_name], entry, where);
  if (!entry.set.is_object())
    throw UsageError(fmt::format("{}.set should be a JSON object", where));
  return entry;
}

std::vector<std::string> Budget::default_tasks() const {
  std::vector<std::string> names;
  if (run.empty()) {
    for (const auto& [key, value] : tasks.items()) names.push_back(key);
  }
  std::istringstream in(run);
  for (std::string key; std::getline(in, key, ',');) names.push_back(key);
  return names;
}

}  // namespace lra
