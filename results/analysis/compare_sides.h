// What a comparison of runs says beside their accuracies: costs, and notes on the sides.
#pragma once

#include "results/analysis/compare_runs.h"
#include "results/analysis/standings.h"

namespace lra {

/// The ratios of time and memory, or a note on why there are none.
void compare_costs(RunComparison& comparison);

/// Notes on runs of a side that did not learn the task, and on seeds that diverged.
void note_learning(RunComparison& comparison, const Baseline& baseline);

/// A note on the protocol's own values for attentions that the sides differ by.
void note_own_values(RunComparison& comparison);

}  // namespace lra
