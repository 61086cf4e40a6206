#include "results/run_log.h"

#include "results/record_fields.h"

namespace lra {
namespace {

constexpr std::string_view kSplits[] = {"train", "dev"};

// Called a thousand times a run: no tree of what is not used, and no depth that a hostile line
// could exhaust.
json parse_line(std::string_view line) {
  return json::parse(
      line, [](int depth, json::parse_event_t, json&) { return depth <= 1; },
      /*allow_exceptions=*/false);
}

LogLine read_line(std::string_view line) {
  const json value = parse_line(line);
  if (value.is_discarded()) bad_record("not valid JSON (cut short?)");
  const RecordReader reader(value, "");
  return {.step = reader.integer("step", 0),
          .train = reader.word("split", kSplits) == "train",
          .loss = reader.number("loss", 0, kHuge),
          .accuracy = reader.number("accuracy", 0, 1),
          .learning_rate = reader.number("learning_rate", 0, kHuge),
          .seconds = reader.number("seconds", 0, kHuge)};
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
