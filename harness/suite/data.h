// Preparing data with progress, for `lra data prepare` and `lra suite` alike, and finding a
// suite's.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lra/config/budget.h"
#include "lra/data/task.h"

namespace lra::suite {

/// Prepares `options.out`/<name> with a progress line; Ctrl-C stops it with Interrupted and leaves
/// nothing. True where it was there already.
bool prepare_data(const std::string& name, PrepareOptions options);

/// Where a suite's data may come from.
struct DataSources {
  std::filesystem::path given;   // prepared data (--data); may be empty
  std::filesystem::path folder;  // what the suite makes itself goes here
  // Folder or archive by task (--source TASK=PATH).
  std::map<std::string, std::filesystem::path> sources;
  bool synthetic = false;  // labelled stand-ins where tasks have them (--synthetic)
  int64_t threads = 0;     // 0 = all cores
  // Of tasks' own generators, by task: lra data prepare --set.
  std::map<std::string, json> settings;
  std::set<std::string> made;  // tasks whose data in `folder` stand as they are
};

/// One task's data: where they are or will be, and how they are made where they are not to be
/// found.
struct TaskData {
  std::string task;
  std::filesystem::path directory;  // DIR of DIR/<task>
  std::optional<PrepareOptions> make;
};

/// Finds the data of each task, in this order: made of the task's own source; a stand-in, made of
/// the source of another task; prepared in `given`; made in `folder` before; generated. Reads and
/// writes nothing. Throws UsageError that names every task without data and what to do, and where a
/// source does not exist, is of no use, or is of samples of other lengths than the budget's.
std::vector<TaskData> locate_data(const std::vector<std::string>& tasks, const Budget& budget,
                                  const DataSources& from);

/// Those of `names` that locate_data finds data for; a line on stderr for each other one, with what
/// to do.
std::vector<std::string> tasks_with_data(const std::vector<std::string>& names,
                                         const Budget& budget, const DataSources& from);

/// Makes what the plan says is to be made, or checks that it is there as it would be made; returns
/// the tasks whose data it made. What the budget asks for in vain is a UsageError that names it.
std::set<std::string> make_data(const std::vector<TaskData>& plan, const Budget& budget);

}  // namespace lra::suite
