// Which results may stand in one table: those of one recipe, and of one data set and one set of
// settings a task.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "results/analysis/attention_names.h"
#include "results/records/result.h"

namespace lra {

/// Results that may be compared, task by task.
struct RecipeGroup {
  std::string protocol;
  std::string regime;                           // the protocol's
  bool beside_other_regimes = false;            // of the groups that were made with it
  std::string dtype;                            // "" = unknown
  RunBudget budget;                             // of the suites whose cells these are
  std::set<std::string> synthetic;              // the tasks of stand-in data
  std::map<std::string, std::string> variants;  // by task, DataRecord::variant() where it has one
  std::map<std::string, std::string> unlike;    // by task, how the data differ from the public
  size_t number = 0;                    // from 1, where there are several groups; 0 = the only one
  std::vector<std::string> overridden;  // "training.steps=10", or with the tasks' own values:
                                        // "a.b=1 (listops), 2 (text)"; not the budget's values
  std::vector<std::string> of_budget;   // those that the budget set so, likewise
  // "optimizer.lr=0.01 (linear)": the protocol's values for attentions that stand in place of
  // those.
  std::vector<std::string> over_budget;
  // Likewise: what tells apart groups that are otherwise called the same.
  std::vector<std::string> settings;
  std::map<std::string, std::string> fingerprints;  // by task, "" = unknown
  std::vector<const Result*> results;               // into the span that was given

  /// Whether the task's data are others than published numbers are of.
  bool has_other_data(const std::string& task) const {
    return synthetic.contains(task) || variants.contains(task) || unlike.contains(task);
  }
};

/// Each run's budget: its own, or that of a suite's cell that has the same data and settings, as a
/// user's own attention may be trained by hand beside a suite. Points into the results.
std::map<const Result*, const RunBudget*> budgets_of(std::span<const Result> results);

/// Splits results into groups. All results of a group have the protocol, regime, dtype, kind of
/// data and overridden keys in common, or are cells of suites of one budget that set the same over
/// it, or equal to such cells: then tasks may differ in the keys that it sets, and in the kind of
/// data. Those of one task have the data fingerprint and every setting besides in common
/// (attention, what the protocol sets by attention, seed and what only decides how a run is logged
/// or split into parts apart). A run that ended before it read its data goes where the other runs
/// of its task are. Where a task has several such data or settings, those of two tasks share a
/// group where the values set over the protocol's are equal, or else where they lie in one suite's
/// folder.
std::vector<RecipeGroup> group_by_recipe(std::span<const Result> results);

/// "protocol lra-strict, budget quick, 2 settings overridden, float32, stand-in data": a heading,
/// with the regime behind the protocol where it is not the first or stands beside others, and with
/// "causal", or of labels at positions "bidirectional", before the type, whose settings
/// recipe_notes() names. "recipe 2: protocol ..." where there are several groups.
std::string recipe_title(const RecipeGroup& group);

/// Which data are not those that published numbers are of: "synthetic data of text, image of
/// CIFAR-10 (JPEG)", as recipe_title() has it; of these tasks alone "synthetic data" where all are
/// of such, and "CIFAR-10 (JPEG)". "" where there are none.
std::string other_data_text(const RecipeGroup& group);
std::string other_data_text(const RecipeGroup& group, const std::vector<std::string>& tasks);

/// What is behind recipe_title(), a line each: why regimes stand apart, where the title names one;
/// the settings, "overridden: training.steps=10"; the data.
std::vector<std::string> recipe_notes(const RecipeGroup& group,
                                      const std::vector<std::string>& tasks);

/// What accuracies of this Result::metric are of.
std::string metric_note(const std::string& metric);

/// "protocol lra-strict (overridden: training.steps=10), float32, data listops 1a2b3c4d"; tasks in
/// the given order, and before their data other_data_text() of them.
std::string recipe_text(const RecipeGroup& group, const std::vector<std::string>& tasks);

/// The row name of each result: its label, and where one label ran one task with different options
/// or different values that the protocol gives it by itself, or any tasks with other files, what
/// differs. `files`: the names of files where not all of them are of this group.
std::map<const Result*, std::string> row_names(const RecipeGroup& group);
std::map<const Result*, std::string> row_names(const RecipeGroup& group, const FileNames& files);

/// The shortest_names() of the attentions of results.
FileNames file_names(std::span<const Result* const> results);

}  // namespace lra
