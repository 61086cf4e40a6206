#include "harness/report/report_files.h"

#include <fmt/format.h>

#include <sstream>
#include <system_error>
#include <utility>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// "x" or "runs/x": what a report writes.
bool is_ours(const std::string& name) {
  const fs::path path(name);
  if (name.empty() || path.is_absolute() || path.lexically_normal() != path) return false;
  for (const fs::path& part : path) {
    if (part == ".." || part == "." || part.empty()) return false;
  }
  return true;
}

bool is_real_folder(const fs::path& folder) {
  std::error_code code;
  return fs::symlink_status(folder, code).type() == fs::file_type::directory;
}

}  // namespace

ReportFiles::ReportFiles(fs::path folder) : folder_(std::move(folder)) {
  std::error_code code;
  if (!fs::is_regular_file(folder_ / kReportFiles, code)) return;
  std::istringstream lines(read_file(folder_ / kReportFiles));
  for (std::string name; std::getline(lines, name);) {
    if (is_ours(name)) known_.insert(name);
  }
}

void ReportFiles::refuse_others(const std::set<std::string>& names) const {
  for (const std::string& name : names) {
    std::error_code code;
    const fs::file_status there = fs::symlink_status(folder_ / name, code);
    // A link is replaced, and what it leads to stays.
    if (known_.contains(name) || !fs::exists(there) || fs::is_symlink(there)) continue;
    throw Error(fmt::format(
        "{} is of no earlier report (it is not in {}), and would be replaced; move it, or choose "
        "another --out folder",
        (folder_ / name).string(), kReportFiles));
  }
}

void ReportFiles::begin(const std::set<std::string>& names) {
  const size_t before = known_.size();
  known_.insert(names.begin(), names.end());
  if (known_.size() > before) write(known_);
}

void ReportFiles::finish(const std::set<std::string>& written) {
  std::set<fs::path> folders;
  for (const std::string& name : known_) {
    if (written.contains(name) || name == kReportFiles) continue;
    const fs::path path = folder_ / name;
    std::error_code code;
    // Through a link into another folder nothing of ours was written.
    if (path.parent_path() != folder_ && !is_real_folder(path.parent_path())) continue;
    if (!fs::is_directory(fs::symlink_status(path, code))) fs::remove(path, code);
    if (path.parent_path() != folder_) folders.insert(path.parent_path());
  }
  for (const fs::path& folder : folders) {
    std::error_code code;
    fs::remove(folder, code);  // where it is empty
  }
  std::set<std::string> all = written;
  all.insert(kReportFiles);
  write(all);
  known_ = std::move(all);
}

void ReportFiles::write(const std::set<std::string>& names) const {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  write_file(folder_ / kReportFiles, text, Links::replace);
}

}  // namespace lra
