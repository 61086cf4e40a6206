// How well approximations follow exact softmax attention, from the lines of `lra fidelity` to
// tables.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "results/print/table.h"
#include "results/records/fidelity.h"

namespace lra {

/// One table for each measure of each setting (experiment, data and layer, length, heads, head
/// width, trials, seed, device, threads, machine): rows are attentions, columns the budget, a cell
/// the mean over the trials and half of its 95 % interval, or the status word; for condition
/// numbers median and worst. Where cells were timed, a table of time and memory follows. Of many
/// budgets the powers of two, the last, those around the head width and, of iterations, every sixth
/// are shown.
std::vector<Table> fidelity_tables(std::span<const Fidelity> cells);

/// The same numbers in long form for other programs, one row a cell and measure.
Table fidelity_long(std::span<const Fidelity> cells);

}  // namespace lra
