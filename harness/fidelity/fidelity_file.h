// The file that fidelity experiments write: one line a cell, synced as it is written, so that a
// second call continues where a killed one stopped.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "attention_variants/base/append_file.h"
#include "harness/host/folder_lock.h"
#include "results/records/fidelity.h"

namespace lra::fidelity {

class FidelityFile {
 public:
  /// Opens `path`, or begins it, and cuts off a last line that a killed call left half-written.
  /// Throws Error where it cannot, and where the file holds anything else, or cells that another
  /// program or other kernels measured: it is then left alone.
  /// Where another process has it open, throws Error too.
  explicit FidelityFile(std::filesystem::path path);

  /// Whether it holds this cell, or has been given it, of any status but an earlier crash.
  bool has(const Fidelity& cell) const { return cells_.contains(cell.identity()); }
  /// In place of a crash of that cell, where the file holds one.
  void append(const Fidelity& cell);
  size_t size() const { return cells_.size(); }

 private:
  std::filesystem::path path_;
  host::FolderLock lock_;
  void remove_crash(const std::string& identity);

  std::set<std::string> cells_, crashed_;  // identities
  std::optional<AppendFile> file_;
};

}  // namespace lra::fidelity
