// Which cells of a suite a runner has still to see ended: read from their folders, as other runners
// work on them too.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "harness/suite/suite.h"

namespace lra::suite {

/// Two files of one name with equal stamps are one file, unchanged.
struct FileStamp {
  std::filesystem::file_time_type time;
  uintmax_t size = 0;
  bool operator==(const FileStamp&) const = default;
};
/// Nothing where there is no file.
std::optional<FileStamp> stamp_of(const std::filesystem::path& path);
/// Of the last checkpoint of a cell's own run, or, where that has none yet, of its pretraining.
std::optional<FileStamp> stamp_of_checkpoint(const std::filesystem::path& run);

class CellQueue {
 public:
  /// `only`: these cells alone; empty = all. `timeout`: seconds of a cell over all its tries; 0 =
  /// none. `sharing`: cells at a time on a device.
  CellQueue(const Suite& suite, const std::vector<size_t>& only, double timeout, int64_t sharing);

  /// Reads the folder of a cell, unless it is known to have ended; true where it has.
  bool look(size_t cell);
  /// A cell is begun, or has ended, by this runner.
  void begin(size_t cell);
  void end(size_t cell) { ended_[cell] = true; }
  /// This runner leaves a cell alone from now on, which counts as one that has failed.
  void set_aside(size_t cell);

  const std::vector<size_t>& chosen() const { return chosen_; }
  bool ended(size_t cell) const { return ended_[cell]; }
  /// Chosen cells that had not ended when last looked at.
  size_t left() const;
  size_t done() const { return chosen_.size() - left(); }
  /// The first cell that has not ended.
  std::optional<size_t> first_open() const;
  /// Seconds that a cell may still take; huge without a limit.
  double time_left(size_t cell) const;
  /// The chosen cells that did not end as ok.
  int64_t failed() const;

 private:
  bool has_ended(size_t cell) const;

  const Suite& suite_;
  double timeout_;
  int64_t sharing_;
  std::vector<size_t> chosen_;
  std::vector<bool> ended_;
  std::map<size_t, FileStamp> again_;  // results of earlier calls that do not stand
  std::set<size_t> aside_;
};

}  // namespace lra::suite
