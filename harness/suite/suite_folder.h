// A suite in its folder: OUT/suite.json, from which any number of runners, the status and a
// cluster's jobs read the same cells.
#pragma once

#include <filesystem>
#include <functional>

#include "harness/suite/suite.h"

namespace lra::suite {

/// Its file; throws Error where there is none, or where it is no object.
json read_suite_json(const std::filesystem::path& out);

/// That the file is not what this version reads: why, and what to do.
Error not_of_this_version(const std::filesystem::path& out, const std::string& why);

/// The suite that a folder holds; throws Error where there is none, where its file is broken, or
/// where this program would make other cells of it.
Suite load_suite(const std::filesystem::path& out);

/// The planned suite as the folder that holds it already has it: with its cells' threads, its cut,
/// and its sources where none are given now. Throws Error where the folder holds another suite.
Suite join_suite(const Suite& planned);

/// Of a folder that holds a suite: throws Error where it is not to be gone on with.
void check_resumed(const std::filesystem::path& out, Resume resume);

struct OpenedSuite {
  Suite suite;
  bool is_new = false;       // not joined: this call made its file
  bool made_folder = false;  // and OUT
};

/// Makes OUT and its suite.json, or joins the suite that is there. `hours` is asked for the
/// predicted hours of the whole where a new suite has a max_hours. Throws Error where OUT holds a
/// suite and `resume` is no, or another suite; UsageError where the caller insists on
/// `threads_given` threads a cell (0 = does not) and the suite has others.
OpenedSuite open_suite(const Suite& planned, Resume resume, int64_t threads_given,
                       const std::function<double(const Suite&)>& hours);

/// The lock in OUT of who makes the data.
inline constexpr const char* kDataLock = "data.lock";

/// Which data the cells of each task are trained on, in OUT.
inline constexpr const char* kFingerprints = "fingerprints.json";

/// Removes suite.json and what was to be submitted of a suite that this process made and could not
/// begin, so that the command may be given again corrected, and the folder where this process made
/// it and nothing else is in it. Nothing where a cell has begun, or another runner is there.
void withdraw_suite(const OpenedSuite& opened);

/// Throws UsageError where the cells of a folder have other threads each than are given (0 = any).
void check_threads(const std::filesystem::path& out, int64_t has, int64_t given);

}  // namespace lra::suite
