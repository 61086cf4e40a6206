#include "harness/suite/run_suite.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "attention_variants/base/files.h"
#include "harness/host/folder_lock.h"
#include "harness/host/heartbeat.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/suite/cell.h"
#include "harness/suite/finish.h"
#include "harness/suite/suite_data.h"
#include "harness/suite/suite_folder.h"
#include "harness/training/train_setup.h"
#include "lra/data/manifest.h"

namespace lra::suite {

namespace fs = std::filesystem;

namespace {

// The data that each task's cells are trained on, by OUT/fingerprints.json or, of a suite older
// than it, by what a cell has recorded; `data` are added. Cells of other data would be of another
// suite.
void keep_fingerprints(const Suite& suite, const std::vector<TaskData>& data) {
  const fs::path& out = suite.request.out;
  const json before = kept_fingerprints(out);
  json known = before;
  for (const TaskData& of_task : data) {
    const std::string& name = of_task.task;
    const std::string found =
        Manifest::read(of_task.directory / name / kManifestFile).fingerprint();
    std::string kept = known.value(name, "");
    if (kept.empty()) kept = recorded_fingerprint(suite, name, of_task.directory);
    if (kept.empty()) kept = found;
    known[name] = kept;
    if (kept == found) continue;
    throw_other_data(suite, name, of_task.directory, found, kept);
  }
  if (known != before) write_json(out / kFingerprints, known, Links::replace);
}

// Data that are made here and that the cells cannot read are removed: with other settings, the
// next suite in the folder may have to make others.
void make_readable_data(const Suite& suite, const std::vector<TaskData>& data) {
  const host::FolderLock lock = host::FolderLock::wait(suite.request.out, kDataLock, "the data");
  const std::set<std::string> made = make_data(data, suite.request.budget);
  for (const TaskData& of_task : data) {
    if (!of_task.make && of_task.directory == suite_data_folder(suite.request.out)) {
      host::say("data: " + of_task.task + ", as made before");
      open_data(of_task.directory, of_task.task, /*check_hashes=*/true);
    }
    try {
      check_cells_can_read(suite, of_task);
      check_cut_samples(suite, {of_task});
    } catch (const Error&) {
      if (made.contains(of_task.task)) remove_tree(of_task.directory / of_task.task);
      throw;
    }
  }
  keep_fingerprints(suite, data);
}

}  // namespace

void check_cells_can_read(const Suite& suite, const TaskData& of_task) {
  std::set<std::string> seen;
  for (const SuiteCell& cell : suite.cells) {
    const Settings& s = cell.config.settings;
    const json reads = {write_fields(s.input), write_fields(s.evaluation), s.training.batch,
                        to_string(s.training.objective), cell.config.overridden};
    if (cell.config.task != of_task.task || !seen.insert(reads.dump()).second) continue;
    check_data(open_run_data(of_task.directory, cell.config, /*check_hashes=*/false), cell.config);
  }
}

void check_given_data(const Suite& suite, const std::vector<TaskData>& data) {
  for (const TaskData& of_task : data) {
    if (!of_task.make && fs::exists(of_task.directory / of_task.task / kManifestFile))
      check_cells_can_read(suite, of_task);
  }
}

int64_t run_suite(const Suite& suite, const RunnerOptions& options) {
  for (const std::string& device : options.devices) host::parse_device(device);
  const host::RunnerHeartbeat mark(suite.request.out);
  const std::vector<TaskData> data = suite_data(suite);
  make_readable_data(suite, data);
  std::map<std::string, fs::path> folders;  // by task
  for (const TaskData& of_task : data) folders[of_task.task] = of_task.directory;
  say_cut_samples(suite, data);
  for (const std::string& note : left_notes(suite)) host::say(note);
  int64_t failed = run_cells(suite, options, folders);
  if (!options.only.empty()) return failed;
  failed += profile_suite(suite, options) ? 0 : 1;
  report_suite(suite);
  return failed;
}

}  // namespace lra::suite
