// The file that fidelity experiments write: one line a cell, synced as it is written, so that a
// second call continues where a killed one stopped.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "results/records/fidelity.h"

namespace lra::fidelity {

class FidelityFile {
 public:
  /// Opens `path`, or begins it, and cuts off a last line that a killed call left half-written.
  /// Throws Error where it cannot, and where the file holds anything else: it is then left alone.
  explicit FidelityFile(std::filesystem::path path);
  ~FidelityFile();
  FidelityFile(const FidelityFile&) = delete;
  FidelityFile& operator=(const FidelityFile&) = delete;

  /// Whether it holds this cell, of any status.
  bool has(const Fidelity& cell) const { return cells_.contains(cell.identity()); }
  void append(const Fidelity& cell);
  size_t size() const { return cells_.size(); }

 private:
  std::filesystem::path path_;
  std::set<std::string> cells_;
  int descriptor_ = -1;
};

}  // namespace lra::fidelity
