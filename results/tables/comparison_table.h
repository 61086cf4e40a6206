// Two attentions on one task, for a terminal.
#pragma once

#include "results/analysis/compare_runs.h"
#include "results/print/table.h"

namespace lra {

Table comparison_table(const RunComparison& comparison);

}  // namespace lra
