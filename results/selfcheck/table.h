// A self-check as a table.
#pragma once

#include <span>

#include "results/print/table.h"
#include "results/selfcheck/record.h"

namespace lra {

/// A row an attention, and one for the machine: how many checks are ok, failed and skipped, the
/// error that is nearest to its limit, or farthest beyond it, and times. Below it stand the reasons
/// of what failed, and of what was skipped.
Table selfcheck_table(std::span<const Selfcheck> records);

}  // namespace lra
