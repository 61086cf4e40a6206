// A report in a folder: tables, plots and pages for a browser; `lra report` and every suite.
#pragma once

#include <filesystem>

#include "results/store/store.h"

namespace lra {

/// Writes the report of `records` into the folder `out`, which it makes, prints the summary on
/// stdout, and says on stderr what was left out of the records, which plots could not be drawn and
/// what was written. Throws Error where a file cannot be written.
void write_report(Records records, const std::filesystem::path& out);

/// Writes the runs' logs as TensorBoard event files, a folder each in `folder`.
void write_event_files(const Records& records, const std::filesystem::path& folder);

}  // namespace lra
