// Budgets: how much of a protocol a suite runs, and on what data where none is given. JSON files
// like the protocols (lra/config/budgets/*.json travel inside the program; a path to a user's file
// serves as well).
#pragma once

#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "attention_variants/base/profile_scope.h"

namespace lra {

/// The data that a suite makes for one task, and the keys it overrides ("training.steps=400").
struct TaskBudget {
  uint64_t data_seed = 0;
  int64_t train = -1, dev = -1, test = -1;   // samples; -1 = the task's own
  int64_t min_length = -1, max_length = -1;  // tokens; -1 = the task's own
  int64_t resolution = -1;                   // pixels a side; -1 = the task's own
  std::string difficulty;                    // of Pathfinder; empty = the task's own
  json set = json::object();                 // dotted key -> value

  template <class Fields>
  void fields(Fields& f) {
    f("data_seed", data_seed);
    f("train", train, at_least(-1));
    f("dev", dev, at_least(-1));
    f("test", test, at_least(-1));
    f("min_length", min_length, at_least(-1));
    f("max_length", max_length, at_least(-1));
    f("resolution", resolution, at_least(-1));
    f("difficulty", difficulty);
    f("set", set, json_object());
  }
};

/// What `lra profile` measures at the end of a suite.
struct ProfileBudget {
  std::string preset = "table1";
  ProfileScope scope = ProfileScope::module;
  ProfileMode mode = ProfileMode::inference;
  std::string lengths = "512,1024,2048,4096,8192";
  double seconds = 3;  // a cell

  template <class Fields>
  void fields(Fields& f) {
    f("preset", preset);
    f("scope", scope, one_of({"core", "module"}));
    f("mode", mode);
    f("lengths", lengths);
    f("seconds", seconds, more_than(0));
  }

  /// `lengths` as numbers; throws UsageError that names `where` where they are none.
  std::vector<int64_t> length_list(const std::string& where) const;
};

struct Budget {
  std::string where;  // "budget file b.json", for messages; "" = not from a file
  std::string schema, name, title, description;
  std::string attentions;       // comma list; empty = all there are
  std::string seeds = "0";      // comma list
  json tasks = json::object();  // task name -> TaskBudget
  std::string run;              // comma list of those that run unasked; empty = all of them
  bool skip_missing = false;    // of those, leave out the ones that there are no data of
  ProfileBudget profile;

  template <class Fields>
  void fields(Fields& f) {
    f("schema", schema, one_of({"lra.budget/1"}));
    f("name", name);
    f("title", title);
    f("description", description);
    f("attentions", attentions);
    f("seeds", seeds);
    f("tasks", tasks);
    f("run", run);
    f("skip_missing", skip_missing);
    f("profile", profile);
  }

  /// What messages call it.
  std::string place() const { return where.empty() ? "budget " + name : where; }

  /// The entry of a task; throws UsageError where the budget has none.
  TaskBudget task(const std::string& task_name) const;

  /// The tasks that run where none are named.
  std::vector<std::string> default_tasks() const;
};

std::vector<std::string> budget_names();

/// A built-in budget by name, or a file by path; throws UsageError that names what is wrong.
Budget load_budget(const std::string& name_or_path);

}  // namespace lra
