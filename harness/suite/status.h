// Where a suite stands, from its folder alone: nothing is taken, nothing is waited for.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "harness/host/folder_lock.h"
#include "results/records/status.h"

namespace lra::suite {

struct CellStatus {
  size_t index = 0;
  std::string task, attention;
  uint64_t seed = 0;
  std::filesystem::path run;
  Status state = Status::pending;
  std::string reason;
  int64_t step = 0, steps = 0;      // with those of its pretraining
  int64_t first_steps = 0;          // of them, of its pretraining
  std::optional<double> accuracy;   // of test where it ended, else of dev so far
  std::optional<double> rate, eta;  // steps a second; seconds, not known in its pretraining
  std::optional<double> seconds;    // it took, where it ended
  std::string data;                 // DataRecord::kind() of one that ended, else ""
  std::string by;                   // who holds it
  std::string queue;                // what the cluster says of its job, "" = nothing
};

struct SuiteStatus {
  std::filesystem::path out;
  std::vector<CellStatus> cells;
  std::vector<host::LockHolder> runners;
  bool profiled = false, reported = false;
  int64_t steps_done = 0, steps = 0;
  std::optional<double> eta;  // seconds until all cells have ended, with those that run now
  std::map<std::string, size_t> counts;  // by state, those that occur

  bool all_ended() const;
};

/// Reads OUT/suite.json and the cells' folders. Throws Error where there is no suite. A file of a
/// cell that cannot be read is that cell's reason, not an error.
SuiteStatus suite_status(const std::filesystem::path& out);

/// For a terminal: a line a cell and totals. `rows` > 0: at most so many lines, with the cells that
/// run and those that failed first, and a count of the rest.
std::string status_text(const SuiteStatus& status, size_t rows = 0);
/// The totals alone.
std::string status_line(const SuiteStatus& status);
json status_json(const SuiteStatus& status);

}  // namespace lra::suite
