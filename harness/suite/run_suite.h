// Running a suite: makes its data, runs its cells, then measures and reports.
#pragma once

#include <cstdint>

#include "harness/suite/data.h"
#include "harness/suite/runner.h"

namespace lra::suite {

/// Throws Error where data are not what the cells of their task read; cells that read them in the
/// same way are one.
void check_cells_can_read(const Suite& suite, const TaskData& of_task);

/// The same of all data that are there, but for those that the suite makes itself.
void check_given_data(const Suite& suite, const std::vector<TaskData>& data);

/// How often the same suite may be run at a time by other processes, on this host or others: as
/// often as they like. Makes the data, runs what is missing and not claimed, waits for what
/// others hold (and takes it over where they die), measures, writes OUT/report and prints its
/// tables. Returns the number of parts (cells, the profile) that did not end as "ok". A cell that
/// fails is a record with its status; the others go on. Throws Interrupted after Ctrl-C.
int64_t run_suite(const Suite& suite, const RunnerOptions& options);

}  // namespace lra::suite
