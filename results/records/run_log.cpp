#include "results/records/run_log.h"

#include <algorithm>

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr std::string_view kSplits[] = {"train", "dev"};

LogLine read_line(std::string_view line) {
  // A hostile line of a million brackets must not exhaust the stack: a whole one has a pair.
  const auto brackets = std::ranges::count_if(line, [](char c) { return c == '[' || c == '{'; });
  const json value =
      json::parse(brackets > 8 ? "" : line, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) bad_record("not valid JSON (cut short?)");
  const RecordReader reader(value, "");
  LogLine entry;
  reader("step", entry.step);
  entry.train = reader.as_word("split", reader.at("split"), kSplits) == "train";
  reader("loss", entry.loss);
  reader("accuracy", entry.accuracy, Presence::required, {.most = 1});
  reader("learning_rate", entry.learning_rate);
  reader("seconds", entry.seconds);
  return entry;
}

}  // namespace

std::vector<LogLine> parse_run_log(std::string_view text, std::string& reason) {
  std::vector<LogLine> lines;
  int64_t number = 0, bad = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      lines.push_back(read_line(line));
    } catch (const std::exception& error) {
      if (bad++ == 0) reason = fmt::format("line {}: {}", number, error.what());
    }
  }
  if (bad > 1) reason += fmt::format(" (and {} more lines)", bad - 1);
  return lines;
}

}  // namespace lra
