// Two attentions on the same task, data and recipe, run against run or seeds against seeds.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/paired.h"
#include "results/records/result.h"
#include "results/statistics/hypothesis.h"
#include "results/statistics/interval.h"

namespace lra {

inline constexpr const char* kCompareSchema = "lra.compare/1";

/// The results of one side's runs.
struct ComparedSide {
  std::string name;                 // as in tables: "nystrom[num_landmarks=32]"
  std::vector<const Result*> runs;  // that are ok, one a seed; into the span that was given
  LearnedCount learned;             // seeds that diverged did not
  double accuracy = 0;              // mean, as a fraction
  std::optional<double> sd;         // over at least two seeds
  stats::Interval ci95;             // as AccuracyCell::interval

  /// Seeds with no other end than that.
  size_t diverged() const { return learned.of - runs.size(); }
  /// The median over the runs that say it and are above 0, if there is one and all ran on one
  /// machine alike.
  std::optional<double> median_cost(std::optional<double> TrainingCost::*which) const;
};

struct RunComparison {
  std::string recipe, task;  // "protocol lra-strict, float32, data listops 3114a0f0"
  std::string metric;        // Result::metric; where it is not "" nothing says what learned
  std::vector<std::string> overridden;  // overridden_settings() of all, as of runs by hand
  ComparedSide a, b;
  double difference = 0;  // accuracy of a - b
  // Of the difference of these runs, by the examples, where every run has its predictions of the
  // same ones.
  std::optional<stats::Interval> bootstrap;
  std::optional<PairedCounts> counts;  // of a single run a side, with such predictions
  std::optional<double> mcnemar;       // p of those
  // Of at least two seeds a side, some of which differ, where all or none learned the task; with
  // the sampling of the test set that they share.
  std::optional<stats::WelchTest> welch;
  // p of the seeds' ranks and of the counts that learned it, where the sides differ in that
  // (LearningTest); and how probably a seed of a is above one of b (stats::share_above()).
  std::optional<double> rank_sum, fisher, above;
  std::optional<double> time_ratio;    // time a training step takes, a / b
  std::optional<double> memory_ratio;  // peak memory of training, a / b
  std::vector<std::string> notes;      // what is not there and why, and what to know
};

/// Compares the runs of one attention with those of another. Throws std::runtime_error that says
/// what differs and on which side, where a number could not be put down to the attention: other
/// tasks, protocols, data (fingerprints, or stand-in against real), number types or settings; and
/// where a side has no finished run, or several attentions.
RunComparison compare_runs(std::span<const Result> first, std::span<const Result> second);

/// {"schema": "lra.compare/1", ...}: accuracies and differences as fractions.
json comparison_json(const RunComparison& comparison);

}  // namespace lra
