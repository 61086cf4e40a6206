// Attentions on all tasks of a recipe: score, speed and memory, as Tay et al. 2021 compare them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/recipes.h"
#include "results/statistics/statistics.h"

namespace lra {

struct Score {
  stats::Estimate accuracy;          // average over the tasks, per cent
  std::optional<double> speed;       // samples a second in training; a geometric mean, as the next
  bool noisy = false;                // others took processor time from one of the runs
  std::optional<double> memory_mib;  // peak of training
  LearnedCount learned;              // of the seeds of all tasks
};

/// What one recipe's attentions have on one machine.
struct ScoreGroup {
  RecipeGroup recipe;
  std::string machine;
  bool shared = false;  // other runs were on the GPU
  std::vector<std::string> tasks;
  std::map<std::string, Score> rows;  // of attentions with a run that is ok on every task
  // Of the recipe's attentions that are in no group's rows, "performer (not all tasks)".
  std::vector<std::string> incomplete = {};
};

/// For each recipe and machine where at least one attention has every task. Speed and memory are
/// geometric means over the tasks of medians over seeds.
std::vector<ScoreGroup> score_groups(std::span<const Result> results);

}  // namespace lra
