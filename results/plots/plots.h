// Records to plots: learning curves, accuracy against cost, costs against length, where a step's
// time goes, fidelity.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/print/gnuplot.h"
#include "results/published/published.h"
#include "results/records/fidelity.h"
#include "results/records/profile.h"
#include "results/records/result.h"
#include "results/where/record.h"

namespace lra {

/// For each recipe (group_by_recipe) and task whose runs have logs: dev accuracy, dev loss and
/// training loss against steps, a line a run in its attention's colour; the key says how many seeds
/// an attention has, how many of them never left the majority class, and of a single run the name
/// that the user gave its folder. With dev accuracy a dashed line at the published test accuracy,
/// where the runs follow that recipe. Lines are means over neighbouring log lines where there are
/// many. Names: "curves-1-dev-accuracy".
std::vector<Plot> curve_plots(std::span<const Result> results,
                              std::span<const Published> references = published());

/// For each recipe, task and machine with at least two attentions: test accuracy with its 95 %
/// interval against the time of a training step, and against the peak memory of training (medians
/// over seeds), with the Pareto front: of those whose seeds all learned the task, those that no
/// other beats in both, and rings around times that are noisy. Names: "tradeoff-1-time",
/// "tradeoff-1-memory".
std::vector<Plot> tradeoff_plots(std::span<const Result> results);

/// For each recipe and machine with at least two attentions that have every task: the average
/// accuracy over the tasks with its 95 % interval against training speed, a circle an attention
/// whose area is the peak memory of training, as in Tay et al. 2021, Figure 3. Speed and memory are
/// geometric means over the tasks of medians over seeds; ~ before a name: its speed is noisy.
/// Names: "score-1".
std::vector<Plot> score_plots(std::span<const Result> results);

/// Loss and accuracy of one run against steps, training and dev, small and without a PDF: `name`
/// followed by "-loss" and "-accuracy". Empty without a log.
std::vector<Plot> run_plots(const Result& result, const std::string& name);

/// Time and memory against length for each group of at least two lengths, with 95 % intervals of
/// the times, rings around those that are noisy, and the papers' rows dashed. Names:
/// "profile-1-time", "profile-1-memory".
std::vector<Plot> profile_plots(std::span<const Profile> profiles,
                                std::span<const Published> references = published());

/// For each group of steps (where_groups) a bar an attention, the shortest step on top: the ops'
/// own times in ms by kind of work, and what is in no op. Names: "where-1".
std::vector<Plot> where_plots(std::span<const Where> records);

/// Each measure over the budget and, where cells were timed, the output's error over time.
/// Condition numbers are not plotted. Names: "fidelity-4-1-output", by experiment and setting.
std::vector<Plot> fidelity_plots(std::span<const Fidelity> cells);

}  // namespace lra
