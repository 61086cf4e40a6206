#include "harness/suite/cell.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "attention_variants/base/append_file.h"
#include "attention_variants/base/files.h"
#include "harness/host/runtime.h"
#include "harness/training/checkpoint.h"
#include "harness/training/result.h"
#include "harness/training/run_folder.h"
#include "harness/training/train_setup.h"
#include "results/records/json_line.h"
#include "results/records/record_fields.h"

namespace lra::suite {

namespace fs = std::filesystem;

namespace {

constexpr auto attempt_fields = [](auto& f, auto& one) {
  f("begin", one.begin, Presence::optional);
  f("host", one.host, Presence::optional);
  f("pid", one.pid, Presence::optional);
  f("device", one.device, Presence::optional);
  f("threads", one.threads, Presence::optional);
  f("sharing", one.sharing, Presence::optional);
  f("seconds", one.seconds);
  f("ended", one.ended, Presence::optional);
};

}  // namespace

std::vector<SuiteCell> runs_of(const SuiteCell& cell) {
  if (cell.config.settings.pretraining.empty()) return {cell};
  SuiteCell first = cell;
  first.config = pretraining_config(cell.config);
  first.run = cell.run / kPretrainingFolder;
  return {std::move(first), cell};
}

int64_t steps_of(const SuiteCell& cell) {
  int64_t steps = 0;
  for (const SuiteCell& run : runs_of(cell)) steps += run.config.settings.training.steps;
  return steps;
}

std::optional<Result> final_result(const fs::path& run, std::string* bad) {
  const fs::path path = run / kResultFile;
  if (!fs::exists(path)) return std::nullopt;
  try {
    return read_result(path);
  } catch (const Error& error) {
    if (bad != nullptr) *bad = error.what();
    return std::nullopt;
  }
}

void check_readable(const fs::path& run) {
  const fs::path path = run / kResultFile;
  if (!fs::exists(path)) return;
  try {
    read_file(path);
  } catch (const Error&) {
    if (fs::exists(path)) throw;  // another runner that tries the cell removes it
  }
}

std::optional<Status> final_status(const fs::path& run, std::string* bad) {
  const std::optional<Result> result = final_result(run, bad);
  return result ? std::optional(result->status) : std::nullopt;
}

std::optional<Status> checked_status(const SuiteCell& cell) {
  const std::optional<Result> result = final_result(cell.run);
  if (!result) return std::nullopt;
  if (!result->config.contains("training"))
    return result->status;  // an older record, which says nothing
  const std::string different = config_differences(result->config, cell.config.to_json());
  if (different.empty()) return result->status;
  throw Error(fmt::format(
      "{} is of another configuration than the cell ({}), whose protocol or options have "
      "changed since; remove its folder to run it anew, or choose another --out folder",
      (cell.run / kResultFile).string(), different));
}

bool is_retryable(const fs::path& run, Status status) {
  return may_go_again(run, status, /*timeout=*/0, /*sharing=*/1);
}

std::string recorded_fingerprint(const Suite& suite, const std::string& task,
                                 const fs::path& directory) {
  for (const SuiteCell& cell : suite.cells) {
    if (cell.config.task != task) continue;
    const std::optional<Result> result = final_result(cell.run);
    if (!result || result->data.fingerprint.empty()) continue;
    // A run records that of the data as it reads them.
    const std::string as_read =
        open_data(directory, task, /*check_hashes=*/false, cell.config.settings.input.reading(),
                  OpenedSplits::all_but_test)
            .manifest()
            .fingerprint();
    if (result->data.fingerprint != as_read) return result->data.fingerprint;
    return Manifest::read(directory / task / kManifestFile).fingerprint();
  }
  return "";
}

std::vector<size_t> open_cells(const Suite& suite, double timeout) {
  std::vector<size_t> open;
  for (size_t i = 0; i < suite.cells.size(); ++i) {
    const auto status = final_status(suite.cells[i].run);
    if (!status || may_go_again(suite.cells[i].run, *status, timeout, /*sharing=*/1))
      open.push_back(i);
  }
  return open;
}

std::optional<host::LockHolder> training_holder(const fs::path& run) {
  auto holder = host::lock_holder(run);
  return holder ? holder : host::lock_holder(run / kPretrainingFolder);
}

std::optional<host::LockHolder> cell_holder(const fs::path& run) {
  auto holder = training_holder(run);
  return holder ? holder : host::lock_holder(run, kClaim);
}

void append_try(const fs::path& run, Attempt one) {
  one.host = host::host_name();
  one.pid = getpid();
  const fs::path file = run / kTriesFile;
  const std::string before = fs::exists(file) ? read_file(file) : "";
  const bool torn = !before.empty() && !before.ends_with('\n');  // by a crash
  AppendFile(file).append((torn ? "\n" : "") + json_line(write_record(one, attempt_fields)) + '\n');
}

namespace {

std::vector<Attempt> attempts_of(const fs::path& run) {
  std::vector<Attempt> all;
  std::ifstream in(run / kTriesFile);
  for (std::string line; std::getline(in, line);) {
    try {
      all.push_back(read_record<Attempt>(json::parse(line), "", attempt_fields));
    } catch (const std::exception&) {  // half a line
    }
  }
  return all;
}

// Cells that shared the device with the last try in the file, itself among them; 0 = unknown.
int64_t last_sharing(const fs::path& run) {
  const std::vector<Attempt> all = attempts_of(run);
  return all.empty() ? 0 : all.back().sharing;
}

}  // namespace

bool may_go_again(const fs::path& run, Status status, double timeout, int64_t sharing) {
  const bool has_time = timeout <= 0 || attempt_seconds(run) < timeout;
  if (status == Status::crash || status == Status::timeout) return has_time;
  return status == Status::oom && has_time && last_sharing(run) > sharing;
}

double attempt_seconds(const fs::path& run) {
  double seconds = 0;
  for (const Attempt& one : attempts_of(run)) seconds += one.seconds;
  return seconds;
}

namespace {

// Of a run that has not ended: by its log, which has not every step, or its last checkpoint.
int64_t steps_done(const fs::path& run) {
  const fs::path log = run / kMetricsFile, last = run / kLastCheckpoint;
  const int64_t logged = fs::is_regular_file(log) ? read_log_tail(log).step : 0;
  try {
    return fs::exists(last) ? std::max(logged, read_checkpoint(last).at.step) : logged;
  } catch (const std::exception&) {  // which the next try will name
    return logged;
  }
}

}  // namespace

void record_failure(const SuiteCell& cell, const fs::path& data, const std::string& device,
                    int64_t threads, Status status, const std::string& reason) {
  const PreparedData prepared = open_run_data(data, cell.config, /*check_hashes=*/false);
  const TrainRequest train{
      .config = cell.config, .run = cell.run, .data = data, .device = host::parse_device(device)};
  Result result = result_of(train, prepared);
  result.status = status;
  result.reason = reason;
  result.config = cell.config.to_json();
  result.training.threads = threads;
  if (const double seconds = attempt_seconds(cell.run); seconds > 0)
    result.training.seconds = seconds;
  if (const int64_t step = steps_done(cell.run); step > 0) result.steps = step;
  write_json(cell.run / kResultFile, make_result(result), Links::replace);
}

}  // namespace lra::suite
