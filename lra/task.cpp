// The list of tasks, filled by each task's registration line.
#include "lra/task.h"

#include <map>

namespace lra {
namespace {

std::map<std::string, Task>& registry() {
  static std::map<std::string, Task> tasks;
  return tasks;
}

}  // namespace

bool register_task(Task task) {
  const std::string name = task.name;
  if (!registry().emplace(name, std::move(task)).second) {
    throw Error("task '" + name + "' is registered twice");
  }
  return true;
}

std::vector<const Task*> tasks() {
  std::vector<const Task*> all;
  for (const auto& [name, task] : registry()) all.push_back(&task);
  return all;
}

const Task& task(const std::string& name) {
  const auto it = registry().find(name);
  if (it != registry().end()) return it->second;
  std::vector<std::string> names;
  for (const Task* known : tasks()) names.push_back(known->name);
  throw unknown_name("task", name, names);
}

}  // namespace lra
