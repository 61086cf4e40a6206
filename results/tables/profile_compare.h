// Two profiles of the same cells: what became slower, and what is not certain.
#pragma once

#include <span>

#include "results/print/table.h"
#include "results/records/profile.h"

namespace lra {

struct Comparison {
  Table table;        // one row a cell that both hold
  int64_t worse = 0;  // cells that are slower, take more memory, or no longer run
};

/// Per cell that both hold (equal in all but what came out): the ratio of the times, now to before,
/// with its bootstrap 95 % interval, and a verdict: "slower" where the whole interval lies above
/// 1 + tolerance, "faster" where it lies below 1 / (1 + tolerance), "same" where it lies between
/// them, else "ambiguous". Memory is counted, not sampled: its plain ratio beyond the tolerance is
/// "more memory" or "less memory". A cell that ran and does not any more is "fails".
Comparison compare_profiles(std::span<const Profile> before, std::span<const Profile> now,
                            double tolerance);

}  // namespace lra
