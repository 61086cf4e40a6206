// What comes when all cells of a suite have ended: the profile and the report.
#pragma once

#include "harness/suite/runner.h"

namespace lra::suite {

/// Measures the suite's profile into OUT/profile.jsonl, once, whichever runner comes first: beside
/// training, times would say nothing. False where it did not finish. Throws Interrupted after
/// Ctrl-C.
bool profile_suite(const Suite& suite, const RunnerOptions& options);

/// Writes OUT/report. Every runner does: the same records make the same tables, and the last one
/// has all. Throws Error where that fails.
void report_suite(const Suite& suite);

/// Commands to go on with after a first suite (of budget smoke), each with what it does; nothing
/// after others. `program` is what the user called. The attention of one's own is among them where
/// that is a checkout's ./run, which can build it in.
std::vector<std::string> next_commands(const Suite& suite, const std::filesystem::path& program);

}  // namespace lra::suite
