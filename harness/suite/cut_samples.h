// Samples that a suite's cells would cut although they mean nothing but as a whole: expressions.
#pragma once

#include <vector>

#include "harness/suite/suite.h"

namespace lra::suite {

/// Throws UsageError where a budget's `input.length`, and not the user's own, cuts samples of cells
/// that are still to run, in data that are there.
void check_cut_samples(const Suite& suite, const std::vector<TaskData>& data);

/// Says of each task where the user's own does.
void say_cut_samples(const Suite& suite, const std::vector<TaskData>& data);

}  // namespace lra::suite
