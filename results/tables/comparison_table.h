// Two attentions on one task, for a terminal.
#pragma once

#include "results/analysis/compare_runs.h"
#include "results/print/table.h"

namespace lra {

/// The comparison, and where single runs have predictions, how many test examples both, one alone
/// and neither predicted rightly.
std::vector<Table> comparison_tables(const RunComparison& comparison);

}  // namespace lra
