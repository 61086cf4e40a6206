#include "harness/suite/queue.h"

#include <algorithm>

#include "harness/suite/cell.h"
#include "harness/training/run_folder.h"

namespace lra::suite {

std::optional<FileStamp> stamp_of(const std::filesystem::path& path) {
  std::error_code missing;
  const auto time = std::filesystem::last_write_time(path, missing);
  if (missing) return std::nullopt;
  return FileStamp{time, std::filesystem::file_size(path, missing)};
}

std::optional<FileStamp> stamp_of_checkpoint(const std::filesystem::path& run) {
  const auto own = stamp_of(run / kLastCheckpoint);
  return own ? own : stamp_of(run / kPretrainingFolder / kLastCheckpoint);
}

CellQueue::CellQueue(const Suite& suite, const std::vector<size_t>& only, double timeout,
                     int64_t sharing)
    : suite_(suite), timeout_(timeout), sharing_(sharing), ended_(suite.cells.size(), false) {
  for (size_t i = 0; i < suite.cells.size(); ++i) {
    if (!only.empty() && std::ranges::count(only, i) == 0) continue;
    chosen_.push_back(i);
    const auto status = checked_status(suite.cells[i]);
    if (!status || !may_go_again(suite.cells[i].run, *status, timeout, sharing_)) continue;
    // Another runner that tries it may have removed it meanwhile.
    if (const auto stamp = stamp_of(suite.cells[i].run / kResultFile)) again_[i] = *stamp;
  }
}

// A crash, and a cell that ran out of time or of its share of the memory and now has more, is tried
// again where its result was there when this runner began; one that appears later, from another
// runner, stands: else two runners would retry a failing cell alternately without end.
bool CellQueue::has_ended(size_t cell) const {
  const std::filesystem::path& run = suite_.cells[cell].run;
  if (!final_status(run)) {
    check_readable(run);
    return false;
  }
  const auto it = again_.find(cell);
  if (it == again_.end()) return true;
  const auto stamp = stamp_of(run / kResultFile);
  return stamp && *stamp != it->second;  // another runner that tries it may have removed it
}

bool CellQueue::look(size_t cell) {
  if (!ended_[cell]) ended_[cell] = has_ended(cell);
  return ended_[cell];
}

void CellQueue::begin(size_t cell) { again_.erase(cell); }

void CellQueue::set_aside(size_t cell) {
  ended_[cell] = true;
  aside_.insert(cell);
}

size_t CellQueue::left() const {
  return static_cast<size_t>(std::ranges::count_if(chosen_, [&](size_t i) { return !ended_[i]; }));
}

std::optional<size_t> CellQueue::first_open() const {
  const auto it = std::ranges::find_if(chosen_, [&](size_t i) { return !ended_[i]; });
  return it == chosen_.end() ? std::nullopt : std::optional(*it);
}

double CellQueue::time_left(size_t cell) const {
  return timeout_ > 0 ? timeout_ - attempt_seconds(suite_.cells[cell].run) : 1e18;
}

int64_t CellQueue::failed() const {
  return std::ranges::count_if(chosen_, [&](size_t i) {
    return aside_.contains(i) || final_status(suite_.cells[i].run) != Status::ok;
  });
}

}  // namespace lra::suite
