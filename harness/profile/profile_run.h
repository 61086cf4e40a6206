// A whole profile: cells, each in processes of its own, interleaved over passes, into one file.
#pragma once

#include <vector>

#include "harness/profile/plan.h"

namespace lra::profile {

/// Measures what the file lacks, and returns its records. A pass goes through all cells, length by
/// length, those of one length in a new random order; the file is written after every process, so
/// that whatever ends this one costs one process's samples. Throws Interrupted after Ctrl-C.
std::vector<Profile> run_profile(const ProfilePlan& plan);

}  // namespace lra::profile
