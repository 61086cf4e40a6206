#include "harness/profile/pass_progress.h"

#include <fmt/format.h>

#include "harness/host/progress.h"

namespace lra::profile {

void PassProgress::set(size_t i, int64_t had, int64_t left) {
  cells_[i].had = had;
  cells_[i].left = left;
}

std::string PassProgress::count() const {
  int64_t had = 0, left = 0;
  for (const Cell& cell : cells_) {
    had += cell.had;
    left += cell.left;
  }
  return fmt::format("{}/{}", had, had + left);
}

std::string PassProgress::eta() const {
  int64_t left = 0, timed = 0;
  double seconds = 0, to_come = 0;
  for (const Cell& cell : cells_) {
    left += cell.left;
    timed += cell.seconds ? 1 : 0;
    seconds += cell.seconds.value_or(0);
  }
  if (left == 0 || timed == 0) return "";
  const double usual = seconds / static_cast<double>(timed);
  for (const Cell& cell : cells_)
    to_come += static_cast<double>(cell.left) * cell.seconds.value_or(usual);
  return ", ETA " + host::duration_text(to_come);
}

}  // namespace lra::profile
