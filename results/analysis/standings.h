// How the attentions of an accuracy table stand to the best of each task.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/analysis/accuracy_cells.h"

namespace lra {

/// Below this p a difference counts.
inline constexpr double kSignificance = 0.05;

/// Whether two sides differ in whether they learned a task: not all of both did, and not none.
/// Then their means say which seeds learned it, and only enough seeds can tell: by their ranks, as
/// results that are mixed of two kinds are not normal, and by the counts that learned it.
struct LearningTest {
  static constexpr size_t kLeastSeeds = 5;  // a side

  LearnedCount a, b;

  bool decides() const;
  bool enough_seeds() const { return a.of >= kLeastSeeds && b.of >= kLeastSeeds; }
  /// Of the two counts, by Fisher's exact test; absent where there are not enough_seeds().
  std::optional<double> fisher_p() const;
  /// "learned by 3/3 seeds against 1/3: fewer than 5 a side"
  std::string text() const;
};

struct Standing {
  enum class Place { best, indistinguishable, below, untested };
  std::string row, task;
  Place place = Place::untested;
  // "McNemar", "Welch" or "rank sum"; "" of the best, and of the untested but for those of which
  // ranks of so few seeds could say nothing among so many tests.
  std::string test;
  std::string reason;  // why it is not tested
  // To the best, in percentage points; above 0 where seeds diverged, or none learned the task.
  // Absent where every seed diverged.
  std::optional<double> difference;
  std::optional<stats::Interval> ci95;  // of the difference
  std::optional<double> p, adjusted;    // by Holm, over the whole table
  // Of a rank sum: the p of seeds of which all of one side are above all of the other.
  std::optional<double> least_p;

  /// "best", "not distinguishable", "below the best", "not tested: no predictions"
  std::string text() const;
};

/// One for each task and attention with a run that is ok or diverged, where a task has at least
/// two; by task, then row. The best has the highest mean of those of which a seed learned the task
/// and none diverged, but for is_lone_seed(); without one a task has no standings. Each other is
/// tested against it: single runs by the exact McNemar test on their predictions, with a paired
/// bootstrap interval; several seeds on both sides by Welch's t test over them, with the sampling
/// of the test set that they share (sampling_error()); where LearningTest::decides(), by the
/// rank-sum test of enough seeds alone, in which a seed that diverged is below all. One with a
/// higher mean is not tested, nor one with higher ranks. All p values of the table are one family;
/// a rank sum that could not have counted in it, whatever the seeds had done, leaves its row
/// untested.
std::vector<Standing> standings(const AccuracyCells& cells);

}  // namespace lra
