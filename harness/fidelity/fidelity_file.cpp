#include "harness/fidelity/fidelity_file.h"

#include <fmt/format.h>

#include <sstream>

#include "attention_variants/base/files.h"
#include "harness/host/runtime.h"
#include "results/records/json_line.h"

namespace lra::fidelity {
namespace {

// How every line begins.
const std::string& line_start() {
  static const std::string start = fmt::format("{{\"schema\":\"{}\"", kFidelitySchema);
  return start;
}

// Whether `tail` may be the beginning of a line of ours.
bool half_written(const std::string& tail) {
  return tail.starts_with(line_start()) || line_start().starts_with(tail);
}

}  // namespace

FidelityFile::FidelityFile(std::filesystem::path path)
    : path_(std::move(path)), lock_(host::FolderLock::of_file(path_)) {
  const auto refuse = [this](const std::string& reason) {
    throw Error(fmt::format("{} is not a fidelity file of this program ({}); choose another --out",
                            path_.string(), reason));
  };
  size_t whole = 0, size = 0;  // bytes of whole lines, and in all
  std::string other;           // than this program
  if (std::filesystem::exists(path_)) {
    const std::string text = read_file(path_);
    size = text.size();
    whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    std::istringstream lines(text.substr(0, whole));
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      try {
        const Fidelity cell = parse_fidelity(json::parse(line));
        other = other.empty() ? host::other_software(cell.software) : other;
        (cell.status == Status::crash ? crashed_ : cells_).insert(cell.identity());
      } catch (const std::exception& error) {
        refuse(fmt::format("line {}: {}", number, error.what()));
      }
    }
    if (!half_written(text.substr(whole))) refuse("its last line has no end");
    if (!other.empty()) {
      throw Error(
          fmt::format("{} has cells measured with {}; give another --out", path_.string(), other));
    }
  }
  file_.emplace(path_);
  if (whole < size) file_->cut(static_cast<int64_t>(whole));
}

void FidelityFile::remove_crash(const std::string& identity) {
  std::istringstream lines(read_file(path_));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const Fidelity cell = parse_fidelity(json::parse(line));
    if (cell.status != Status::crash || cell.identity() != identity) kept += line + "\n";
  }
  file_.reset();
  AtomicFile whole(path_);
  whole.write(kept);
  whole.commit();
  file_.emplace(path_);
}

void FidelityFile::append(const Fidelity& cell) {
  if (crashed_.erase(cell.identity()) > 0) remove_crash(cell.identity());
  file_->append(json_line(make_fidelity(cell)) + "\n");
  file_->sync();
  cells_.insert(cell.identity());
}

}  // namespace lra::fidelity
