#include "harness/fidelity/fidelity_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "attention_variants/base/files.h"
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

FidelityFile::FidelityFile(std::filesystem::path path) : path_(std::move(path)) {
  const auto refuse = [this](const std::string& reason) {
    throw Error(fmt::format("{} is not a fidelity file of this program ({}); choose another --out",
                            path_.string(), reason));
  };
  size_t whole = 0, size = 0;  // bytes of whole lines, and in all
  if (std::filesystem::exists(path_)) {
    const std::string text = read_file(path_);
    size = text.size();
    whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    std::istringstream lines(text.substr(0, whole));
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      try {
        cells_.insert(parse_fidelity(json::parse(line)).identity());
      } catch (const std::exception& error) {
        refuse(fmt::format("line {}: {}", number, error.what()));
      }
    }
    if (!half_written(text.substr(whole))) refuse("its last line has no end");
  }
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0 || (whole < size && ftruncate(descriptor_, static_cast<off_t>(whole)) != 0))
    throw Error(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
}

FidelityFile::~FidelityFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void FidelityFile::append(const Fidelity& cell) {
  const std::string line = json_line(make_fidelity(cell)) + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw Error(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
    done += static_cast<size_t>(count);
  }
  fsync(descriptor_);
  cells_.insert(cell.identity());
}

}  // namespace lra::fidelity
