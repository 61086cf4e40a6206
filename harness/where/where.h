// lra profile --where: the time of a model's step by kind of work, op and part.
#pragma once

#include "harness/profile/cell.h"
#include "results/where/record.h"

namespace lra::where {

/// Measures a cell of scope model in this process: the roofline, steps without recording, as a
/// profile does, and steps with it, a third of `seconds` each and at least three. Throws what the
/// cell throws.
Where where_of(const profile::ProfileCell& cell, torch::Device device, int64_t threads,
               double seconds);

}  // namespace lra::where
