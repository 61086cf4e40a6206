// How far a profile is, in passes, and when the last will be over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lra::profile {

class PassProgress {
 public:
  explicit PassProgress(size_t cells) : cells_(cells) {}

  /// Cell `i` has so many passes, and is to get so many more.
  void set(size_t i, int64_t had, int64_t left);
  /// A pass of cell `i` took so long.
  void took(size_t i, double seconds) { cells_[i].seconds = seconds; }

  /// "17/48": passes had, and with those to come.
  std::string count() const;
  /// ", ETA 2m10s": every pass to come takes as long as the cell's last one, or where it has none
  /// as the mean of the others'. "" where none is to come, or none was timed.
  std::string eta() const;

 private:
  struct Cell {
    int64_t had = 0, left = 0;
    std::optional<double> seconds;
  };
  std::vector<Cell> cells_;
};

}  // namespace lra::profile
