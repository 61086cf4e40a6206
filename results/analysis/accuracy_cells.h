// What the cells of an accuracy table are made of: the runs of one attention on one task.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "results/analysis/recipes.h"
#include "results/published/published.h"
#include "results/statistics/statistics.h"

namespace lra {

/// What needs no learning, in per cent of a task's test split.
struct Baseline {
  std::optional<double> chance;    // one over the number of labels that occur
  std::optional<double> majority;  // the most frequent label
  // That of each sample, where samples have several.
  std::optional<double> sample_majority;

  /// The highest of them.
  std::optional<double> highest() const;
  std::string text() const;  // "the most frequent label (18.90 %)", "chance (10.00 %)"
};

Baseline baseline_of(const RecipeGroup& group, const std::string& task);

/// Whether a run's interval on test lies above the baseline; true where there is none to hold it
/// to.
bool above(const Result& result, const Baseline& baseline);

/// Whether a run learned its task: it left the majority on dev (Result::never_left_majority; of a
/// record that does not know, dev says nothing), and is above the baseline on test.
bool learned(const Result& result, const Baseline& baseline);

/// What it means not to have learned, for a warning that ends in it.
std::string unlearned_text(const Baseline& baseline);

/// Of the seeds of a cell that are ok or diverged, how many learned the task (learned()).
struct LearnedCount {
  size_t learned = 0, of = 0;

  bool all() const { return of > 0 && learned == of; }
  bool mixed() const { return learned > 0 && learned < of; }
  std::string text() const;  // "3/5"
  /// A name in a plot, with the count where not all did: "reformer (learned 3/5)".
  std::string named(const std::string& name) const;
};

/// The results of the seeds of one attention on one task.
struct AccuracyCell {
  std::vector<const Result*> ok;        // one a seed
  std::vector<const Result*> learned;   // those of `ok` that learned the task, where that is known
  std::map<std::string, int> other;     // Result::ending() -> count
  std::vector<const Result*> untested;  // those of `other` that are ok, and were not to be tested
  size_t diverged = 0;                  // seeds that did, with no run that is ok
  size_t repeated = 0;                  // runs of a seed that is there already
  // Of those: the run that counts, and one of the same seed that came to another accuracy.
  std::vector<std::pair<const Result*, const Result*>> disagreeing = {};

  LearnedCount learned_count() const {
    return {.learned = learned.size(), .of = ok.size() + diverged};
  }
  /// That of the runs that learned the task alone.
  AccuracyCell learned_only() const { return {.ok = learned, .learned = learned}; }

  /// Of the runs that are ok, in per cent.
  std::vector<double> percents() const;
  double percent() const;            // their mean
  std::optional<double> sd() const;  // over at least two seeds
  /// Wilson's interval of one run, that of the mean over several by the seeds and the sampling of
  /// the test set that they share (stats::seeds_interval); 95 %, in per cent.
  stats::Interval interval() const;
  /// What ranks of the seeds are of: percents(), and of those that diverged less than any.
  std::vector<double> ranked() const;
  /// percent() with interval().
  stats::Estimate estimate() const;
  /// The mean accuracy on dev, in per cent, of the untested runs; absent without any.
  std::optional<double> dev_percent() const;
  std::string statuses() const;       // of the others: "oom", "2 oom, crash"
  std::string diverged_text() const;  // "2 of 4 seeds diverged"
  /// "37.05 [34.96, 39.19]", "37.40 [33.98, 40.82] n=3 (1 oom)", "diverged", "3 diverged,
  /// learned 0/3"; of several seeds that did not all learn the task "31.20 [20.01, 42.39] n=5,
  /// learned 3/5: 38.10"
  std::string text() const;
};

/// The cell of these runs, one a seed, that are ok.
AccuracyCell cell_of(std::vector<const Result*> ok, const Baseline& baseline);

using AccuracyCells = std::map<std::pair<std::string, std::string>, AccuracyCell>;  // (row, task)

AccuracyCells accuracy_cells(const RecipeGroup& group);

/// Whether a cell is of one seed, in a task where at least as many cells have several seeds, all of
/// which learned it, as have one: then it is never the best, as the luck of one seed would outrank
/// means, and take their tests from them.
bool is_lone_seed(const AccuracyCells& cells, const std::string& row, const std::string& task);
bool has_lone_seeds(const AccuracyCells& cells);

/// Task columns in the order of the first paper that has them, then by name.
std::vector<std::string> task_order(const RecipeGroup& group,
                                    std::span<const Published> references);

/// The paper whose recipe is nearest: listed first for the group's protocol, else anywhere; never
/// one of the regime "later", nor beside a group of another than the first. Null: none.
const Published* nearest(const RecipeGroup& group, std::span<const Published> references);

/// Whether the checkpoint that was tested was chosen by its accuracy on the test set:
/// evaluation.dev is "test" and evaluation.select_after leaves a choice.
bool chosen_on_test(const Result& result);
/// What that means, for a note.
inline constexpr const char* kChosenOnTest =
    "chosen on test: evaluation.dev is the test set here, so the best checkpoint is the one with "
    "the best test accuracy";

}  // namespace lra
