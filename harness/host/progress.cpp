#include "harness/host/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "attention_variants/base/text.h"
#include "harness/host/terminal.h"

namespace lra::host {
namespace {

std::atomic<bool> g_quiet{false};

// Several lines, each fit to be printed.
std::string printable_lines(const std::string& text) {
  std::string result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result += (begin == 0 ? "" : "\n") + printable(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

// What cannot be written there, on a full disk, ends nothing.
template <class... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void set_quiet(bool quiet) { g_quiet = quiet; }

bool is_quiet() { return g_quiet; }

void say(const std::string& line) {
  if (g_quiet) return;
  std::fflush(stdout);  // where both go to one file, no line is torn and their order stays
  print_error("{}{}\n", isatty(STDERR_FILENO) ? "\r\x1b[K" : "", printable_lines(line));
}

void say_error(const std::string& message) {
  set_quiet(false);
  say("lra: " + message);
}

std::string bar_text(double share, size_t width) {
  const auto filled = static_cast<size_t>(static_cast<double>(width) * std::clamp(share, 0.0, 1.0));
  return std::string(filled, '#') + std::string(width - filled, '.');
}

std::string bar_line(double share, const std::string& text, size_t columns) {
  constexpr size_t kBar = 20, kLeastBar = 8, kAround = 4;  // "[", "] ", and a column for the cursor
  if (columns == 0) return fmt::format("[{}] {}", bar_text(share, kBar), text);
  const size_t left = columns > text.size() + kAround ? columns - text.size() - kAround : 0;
  const std::string line =
      fmt::format("[{}] {}", bar_text(share, std::clamp(left, kLeastBar, kBar)), text);
  size_t end = std::min(line.size(), columns - 1);
  while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
  return line.substr(0, end);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(std::string what, int64_t total, int64_t start)
    : what_(std::move(what)),
      total_(total),
      start_(start),
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_) {}

Progress::~Progress() {
  if (!finished_ && open_ && terminal_ && !g_quiet) print_error("\n");
}

void Progress::update(int64_t done, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  const auto interval =
      terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(30'000);
  if (g_quiet || now - last_ < interval) return;
  last_ = now;
  draw(done, note);
}

void Progress::draw(int64_t done, const std::string& note) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double rate = static_cast<double>(done - start_) / std::max(seconds, 1e-9);
  const double eta = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
  const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 0;
  std::string line =
      fmt::format("{} {}/{} {:.3g}/s ETA {}", what_, done, total_, rate, duration_text(eta));
  if (!note.empty()) line += "  " + note;
  line = printable(line);
  std::fflush(stdout);
  if (terminal_) {
    print_error("\r\x1b[K{}", bar_line(share, line, terminal_columns(STDERR_FILENO)));
    std::fflush(stderr);
    open_ = true;
  } else {
    print_error("{}\n", line);
  }
}

void Progress::finish() {
  finished_ = true;
  if (open_ && terminal_ && !g_quiet) print_error("\r\x1b[K");
}

}  // namespace lra::host
