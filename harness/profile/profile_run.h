// A whole profile: cells, each in processes of its own, interleaved over passes, into one file.
#pragma once

#include <span>
#include <vector>

#include "harness/profile/plan.h"

namespace lra::profile {

/// Measures what the file lacks, and returns its records. A pass goes through all cells, length by
/// length, those of one length in a new random order; the file is written after every process, so
/// that whatever ends this one costs one process's samples. Throws Interrupted after Ctrl-C.
std::vector<Profile> run_profile(const ProfilePlan& plan);

/// Of the plan's cells what is known before anything is measured: what they are of, and where.
std::vector<Profile> planned_records(const ProfilePlan& plan);

/// Of records those of the plan's cells, in its order.
std::vector<Profile> profiles_of(const ProfilePlan& plan, std::span<const Profile> records);

}  // namespace lra::profile
