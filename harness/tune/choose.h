// What a search found: the scores of its points, the choice among them, and a table of both.
#pragma once

#include <string>
#include <vector>

#include "harness/tune/tune_file.h"
#include "results/print/table.h"

namespace lra::tune {

/// The seeds of an attention at a point.
struct Score {
  std::string attention;
  Point point;
  std::vector<TunedCell> cells;  // a seed each

  /// Every seed ended as ok, with an accuracy on dev.
  bool is_whole() const;
  /// Of a whole one, the accuracy on dev as a fraction: the mean over the seeds, and its interval
  /// (of several seeds stats::seeds_interval, of one that of its run).
  double mean() const;
  stats::Interval interval() const;
  /// The seeds that left the majority behind.
  int64_t learned() const;
  /// How the seeds that are not ok stand, "1 diverged, 2 pending".
  std::string states() const;
};

/// By attention, then by point, in the order of the file.
std::vector<Score> scores_of(const TuneFile& file);

/// For each attention the point of the highest mean accuracy, among equals that which more seeds
/// learned, among those the first. Points that are not whole are passed over; an attention without
/// a whole one is left out.
std::vector<ChosenPoint> choose(const std::vector<Score>& scores);

/// DataRecord::kind() of the data of the search.
std::string data_kind(const TuneFile& file);

/// Whether points differ in their number of steps, and what that does to their scores.
bool has_unlike_steps(const TuneFile& file);
inline constexpr const char* kUnlikeSteps =
    "points differ in training.steps: the longer ones were evaluated more often, and the best of "
    "more evaluations is higher";

/// How many points of the attention are as good as the one that was chosen, that among them.
int64_t equal_points(const TuneFile& file, const ChosenPoint& chosen);

/// A row an attention and point, with the choice marked, and notes: how it was made, and what it
/// cost.
Table score_table(const TuneFile& file);

}  // namespace lra::tune
