// One cell of a suite in its folder: its status, the process that has it, and its tries.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/host/child.h"
#include "harness/host/folder_lock.h"
#include "harness/suite/suite.h"
#include "results/records/status.h"

namespace lra::suite {

/// The runner that has a cell holds this lock of the run folder; the training process itself holds
/// FolderLock::kName.
inline constexpr const char* kClaim = "claim";
/// What a cell's process printed, where several run at a time; the error that ended it, where it
/// ran alone.
inline constexpr const char* kLogFile = "log.txt";
/// What was a result.json and no record, before the cell was run again.
inline constexpr const char* kBadResultFile = "result.json.bad";

/// The runs of a cell, in their order: that of its pretraining, where it has one, and its own. The
/// first has the cell's `sets`, which are not what makes its configuration.
std::vector<SuiteCell> runs_of(const SuiteCell& cell);

/// Of all runs of a cell.
int64_t steps_of(const SuiteCell& cell);

/// A cell's result.json, nothing where there is none (or none that can be read, which `bad` then
/// tells).
std::optional<Result> final_result(const std::filesystem::path& run, std::string* bad = nullptr);
/// Throws Error where it is there and cannot be read: it may be whole.
void check_readable(const std::filesystem::path& run);
/// How it ended.
std::optional<Status> final_status(const std::filesystem::path& run, std::string* bad = nullptr);

/// The same of a cell, whose result.json has to be of its configuration; throws Error where it is
/// of another.
std::optional<Status> checked_status(const SuiteCell& cell);

/// Whether a new call may retry a cell that ended so in its folder: a crash, a time that was too
/// short, or memory that others shared.
bool is_retryable(const std::filesystem::path& run, Status status);

/// The fingerprint of the data that a finished cell of the task was trained on: of the data in
/// `directory`, as they were prepared, where the cell read those; else what it has recorded; ""
/// where none has.
std::string recorded_fingerprint(const Suite& suite, const std::string& task,
                                 const std::filesystem::path& directory);

/// The cells that a new call with `timeout` seconds a cell (0 = no end) would run: those without a
/// result, and those it retries.
std::vector<size_t> open_cells(const Suite& suite, double timeout = 0);

/// The process that trains in the folder of a run, or its pretraining there; nothing where there is
/// none.
std::optional<host::LockHolder> training_holder(const std::filesystem::path& run);

/// The holder of a cell: the training process, or the runner that claimed it; nothing where there
/// is none.
std::optional<host::LockHolder> cell_holder(const std::filesystem::path& run);

/// A try as it ended.
struct Attempt {
  std::string begin, host;
  int64_t pid = 0;  // of the runner
  std::string device;
  int64_t threads = 0;
  int64_t sharing = 0;  // cells at a time on its device; 0 = unknown
  double seconds = 0;
  std::string ended;  // "ok" or another status, "asked to stop", "ended by signal 9", ...
};
/// As a try of this process.
void append_try(const std::filesystem::path& run, Attempt one);

/// Whether a cell that ended so may end otherwise now: with `timeout` seconds for all its tries (0
/// = no end), and `sharing` cells at a time on a device. An earlier try that does not say how many
/// shared it counts as one alone.
bool may_go_again(const std::filesystem::path& run, Status status, double timeout, int64_t sharing);

/// The seconds of all tries in the file. A try whose runner was killed with it has left no line.
double attempt_seconds(const std::filesystem::path& run);

/// Writes the result of a cell whose process left none, with this status and reason, the seconds of
/// its tries and the last step of its log.
void record_failure(const SuiteCell& cell, const std::filesystem::path& data,
                    const std::string& device, int64_t threads, Status status,
                    const std::string& reason);

}  // namespace lra::suite
