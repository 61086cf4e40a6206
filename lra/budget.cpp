#include "lra/budget.h"

#include "embedded_budgets.h"
#include "lra/embedded.h"
#include "lra/task.h"

namespace lra {

std::vector<std::string> budget_names() { return embedded_names(embedded_budgets); }

Budget load_budget(const std::string& name_or_path) {
  const NamedJson file = load_named_json("budget", name_or_path, embedded_budgets);
  Budget budget;
  read_fields(file.value, budget, file.where);
  if (budget.schema.empty() || budget.name.empty()) {
    throw UsageError(file.where + R"( should hold "schema": "lra.budget/1" and a "name")");
  }
  for (const auto& [name, value] : budget.tasks.items()) {
    lra::task(name);
    budget.task(name);
  }
  return budget;
}

TaskBudget Budget::task(const std::string& task_name) const {
  if (!tasks.contains(task_name)) {
    std::vector<std::string> names;
    for (const auto& [key, value] : tasks.items()) names.push_back(key);
    throw unknown_name("task", task_name, names, "budget " + name);
  }
  TaskBudget entry;
  read_fields(tasks[task_name], entry, "budget " + name + ": tasks." + task_name);
  if (!entry.set.is_object()) throw UsageError("budget " + name + ": tasks." + task_name + ".set should be a JSON object");
  return entry;
}

}  // namespace lra
