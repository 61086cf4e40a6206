// Published numbers that stand beside no runs, and where the others come from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/print/table.h"
#include "results/published/published.h"
#include "results/records/result.h"

namespace lra {

/// What must stand below every table of runs beside published numbers: where those are from, their
/// slips, and what differs of the recipe of `protocol`.
void note_beside(const Published& reference, const std::string& protocol,
                 std::vector<std::string>& notes);

/// Which of the runs are the released form of a published row's variant, a footnote each.
void note_released_forms(const Published& reference, std::span<const Result* const> results,
                         std::vector<std::string>& notes);

/// A table a regime of the accuracies that stand beside no protocol of ours: never with intervals,
/// never with official ones. Each average says whether Path-X is in it.
std::vector<Table> other_regime_tables(std::span<const Published> references = published());

}  // namespace lra
