#include "results/records/run_log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <fstream>
#include <set>
#include <system_error>

#include "attention_variants/base/error.h"
#include "results/records/record_fields.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

constexpr std::streamoff kTail = 1 << 17;  // bytes: more than a thousand lines
constexpr size_t kLately = 50;             // lines

constexpr auto line_fields = [](auto& f, auto& line) {
  f("step", line.step);
  f("split", line.split);
  f("loss", line.loss);
  f("accuracy", line.accuracy, Presence::required, {.most = 1});
  f("learning_rate", line.learning_rate);
  f("seconds", line.seconds);
  f("time", line.time);
};

LogLine read_line(std::string_view line) {
  // A hostile line of a million brackets must not exhaust the stack: a whole one has a pair.
  const auto brackets = std::ranges::count_if(line, [](char c) { return c == '[' || c == '{'; });
  const json value =
      json::parse(brackets > 8 ? "" : line, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) bad_record("not valid JSON (cut short?)");
  return read_record<LogLine>(value, "", line_fields);
}

// Calls `use(line, text)` for every line, and `refuse(number, error)` where it cannot be used.
template <class Use, class Refuse>
void for_each_line(std::string_view text, const Use& use, const Refuse& refuse) {
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    LogLine entry;
    try {
      entry = read_line(line);
    } catch (const std::exception& error) {
      refuse(number, error);
      continue;
    }
    use(entry, line);
  }
}

}  // namespace

double time_of_day() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count()) /
         1000;
}

std::string make_log_line(const LogLine& line) {
  return write_record(line, line_fields).dump() + "\n";
}

std::vector<LogLine> parse_run_log(std::string_view text, std::string& reason) {
  std::vector<LogLine> lines;
  int64_t bad = 0;
  for_each_line(
      text, [&](const LogLine& entry, std::string_view) { lines.push_back(entry); },
      [&](int64_t number, const std::exception& error) {
        if (bad++ == 0) reason = fmt::format("line {}: {}", number, error.what());
      });
  if (bad > 1) reason += fmt::format(" (and {} more lines)", bad - 1);
  return lines;
}

std::string cut_run_log(std::string_view text, int64_t step, bool pending) {
  std::string kept;
  for_each_line(
      text,
      [&](const LogLine& entry, std::string_view line) {
        const bool again = pending && entry.step == step && entry.split == LogSplit::dev;
        if (entry.step <= step && !again) kept += std::string(line) + "\n";
      },
      [](int64_t, const std::exception&) {});
  return kept;
}

std::optional<int64_t> lost_evaluation(std::span<const LogLine> log, const EvaluationSteps& at,
                                       int64_t last) {
  std::set<int64_t> there;
  for (const LogLine& line : log) {
    if (line.split == LogSplit::dev) there.insert(line.step);
  }
  for (int64_t step = at.every; at.every > 0 && step <= last; step += at.every) {
    if (!there.contains(step)) return step;
  }
  if (at.steps > 0 && last >= at.steps && !there.contains(at.steps)) return at.steps;
  return std::nullopt;
}

std::optional<int64_t> left_majority_at(std::span<const LogLine> log, double majority,
                                        int64_t count) {
  std::optional<int64_t> left;
  for (const LogLine& line : log) {
    if (line.split != LogSplit::dev) continue;
    const auto correct =
        static_cast<int64_t>(std::llround(line.accuracy * static_cast<double>(count)));
    const bool above = stats::wilson_interval(correct, count).low > majority;
    if (above && left) return left;
    left = above ? std::optional(line.step) : std::nullopt;
  }
  return left;
}

LogTail read_log_tail(const std::filesystem::path& path) {
  LogTail tail;
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return tail;
  std::ifstream in(path, std::ios::ate | std::ios::binary);
  if (!in) return tail;
  const std::streamoff size = in.tellg(), from = std::max<std::streamoff>(size - kTail, 0);
  std::string text(static_cast<size_t>(size - from), '\0');
  in.seekg(from).read(text.data(), size - from);
  if (in.bad()) throw Error("cannot read " + path.string() + ": its disk failed");
  text.resize(static_cast<size_t>(in.gcount()));
  if (size > kTail) text.erase(0, std::min(text.find('\n'), text.size()));  // begins anywhere
  std::deque<LogLine> lately;
  if (size <= kTail) lately.emplace_back();  // the run's start
  for_each_line(
      text,
      [&](const LogLine& line, std::string_view) {
        tail.step = line.step;
        if (line.split == LogSplit::dev) tail.accuracy = line.accuracy;
        lately.push_back(line);
        if (lately.size() > kLately) lately.pop_front();
        const LogLine& first = lately.front();
        if (line.step > first.step && line.seconds > first.seconds)
          tail.rate = static_cast<double>(line.step - first.step) / (line.seconds - first.seconds);
      },
      [](int64_t, const std::exception&) {});
  return tail;
}

}  // namespace lra
