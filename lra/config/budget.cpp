#include "lra/config/budget.h"

#include <fmt/format.h>

#include <sstream>

#include "embedded_budgets.h"
#include "lra/config/embedded.h"
#include "lra/config/once.h"
#include "lra/config/preset.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"

namespace lra {
namespace {

void check_has(const Budget& budget, const std::string& task_name, const std::string& where) {
  if (budget.tasks.contains(task_name)) return;
  std::vector<std::string> names;
  for (const auto& [key, value] : budget.tasks.items()) names.push_back(key);
  throw unknown_name("task", task_name, names, where);
}

// The entry of a task: that there is such a task, and that its settings can be read.
void check_task_budget(const Budget& budget, const std::string& name) {
  read_at(budget.where + ": tasks", [&] { lra::task(name); });
  const TaskBudget entry = budget.task(name);
  for (const auto& [key, value] : entry.set.items()) {
    check_setting(fmt::format("{}={}", key, value.dump()),
                  fmt::format("{}: tasks.{}.set", budget.where, name));
  }
}

// An attention made from a file is not looked for until it is used.
void check_attentions(const std::string& list) {
  for (const AttentionSpec& attention : parse_attentions(list)) {
    const AttentionEntry& entry = attention_entry(attention.name);
    if (runs_by_name(attention.name)) entry.effective_options(attention.options);
  }
}

}  // namespace

std::vector<std::string> budget_names() { return embedded_names(embedded_budgets); }

Budget load_budget(const std::string& name_or_path) {
  Budget budget;
  budget.where = load_named_json("budget", name_or_path, embedded_budgets, budget).where;
  for (const auto& [name, value] : budget.tasks.items()) check_task_budget(budget, name);
  for (const std::string& name : budget.default_tasks())
    check_has(budget, name, budget.where + ": run");
  if (!budget.attentions.empty())
    read_at(budget.where + ": attentions", [&] { check_attentions(budget.attentions); });
  read_at(budget.where + ": profile.preset", [&] { load_preset(budget.profile.preset); });
  budget.profile.length_list(budget.where);
  return budget;
}

std::vector<int64_t> ProfileBudget::length_list(const std::string& where) const {
  std::vector<int64_t> list;
  std::istringstream in(lengths);
  for (std::string length; std::getline(in, length, ',');) {
    const json value = value_from_text(length);
    if (!value.is_number_integer() || value < 1 || value > kLongestLength) {
      throw UsageError(
          fmt::format("{}: profile.lengths should be a comma list of integers from 1 "
                      "to {}, not '{}'",
                      where, kLongestLength, lengths));
    }
    list.push_back(value);
  }
  if (list.empty()) throw UsageError(fmt::format("{}: profile.lengths names no length", where));
  check_once(where + ": profile.lengths", list);
  return list;
}

TaskBudget Budget::task(const std::string& task_name) const {
  check_has(*this, task_name, place());
  TaskBudget entry;
  read_fields(tasks[task_name], entry, fmt::format("{}: tasks.{}", place(), task_name));
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
