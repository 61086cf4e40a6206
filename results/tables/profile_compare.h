// Two profiles of the same cells: what became slower, and what is not certain.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/print/table.h"
#include "results/records/profile.h"

namespace lra {

struct Comparison {
  Table table;        // one row a cell that both hold
  int64_t worse = 0;  // cells that are slower, take more memory, or no longer run
  // Cells that both hold under other values of a protocol of the same name, or with other values
  // of an option: which, and in what they differ. They are in the table's notes too.
  std::vector<std::string> apart;
};

/// Per cell that both hold (equal in all but what came out): the ratio of the times, now to before,
/// with its bootstrap 95 % interval, and a verdict: "slower" where the whole interval lies above
/// 1 + tolerance, "faster" where it lies below 1 / (1 + tolerance), "same" where it lies between
/// them, else "ambiguous". Memory is counted, not sampled: its plain ratio beyond the tolerance is
/// "more memory" or "less memory". A cell that ran and does not any more is "fails". A cell is
/// compared with the latest before that is not known to be of other values of its protocol or
/// options. Notes say where other sets of the CPU's kernels measured the two, where they were
/// measured otherwise (other_method()), and what one of them alone holds. Of fewer than
/// stats::kFewestSamples a time is "ambiguous".
Comparison compare_profiles(std::span<const Profile> before, std::span<const Profile> now,
                            double tolerance);

}  // namespace lra
