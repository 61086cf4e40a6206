// lra profile --compare: an earlier profile, and what a new one says beside it.
#pragma once

#include <string>
#include <vector>

#include "results/records/profile.h"

namespace lra {

struct ComparisonOptions {
  std::string earlier, now;  // the files, for messages
  double tolerance = 0.1;    // a change of up to this part is none
};

/// What is compared with, to be read before anything is measured. Throws UsageError where it is no
/// profile.
std::vector<Profile> read_earlier(const std::string& file);

/// Throws Error where what is to be measured, `planned`, has no cell in common with `earlier`.
void check_comparable(const std::vector<Profile>& earlier, const std::vector<Profile>& planned,
                      const ComparisonOptions& options);

/// Prints what the comparison says. Throws Error where a cell got worse, or the two have none in
/// common.
void print_comparison(const std::vector<Profile>& earlier, const std::vector<Profile>& now,
                      const ComparisonOptions& options);

}  // namespace lra
