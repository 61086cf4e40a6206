#include "results/records/predictions.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include "results/records/record_fields.h"

namespace lra {
namespace {

constexpr std::string_view kHeader = "index,label,predicted";

// The value up to the next comma or the end of `line`, which it is taken from.
template <class Number>
bool take(std::string_view& line, Number& value) {
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (code != std::errc()) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  if (line.empty()) return true;
  if (line.front() != ',') return false;
  line.remove_prefix(1);
  return !line.empty();
}

}  // namespace

int64_t Predictions::correct() const {
  int64_t count = 0;
  for (size_t i = 0; i < labels.size(); ++i) count += labels[i] == predicted[i] ? 1 : 0;
  return count;
}

std::vector<int32_t> Predictions::classes() const {
  std::vector<int32_t> result = labels;
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

double Predictions::majority() const {
  std::map<int32_t, int64_t> counts;
  int64_t most = 0;
  for (const int32_t label : labels) most = std::max(most, ++counts[label]);
  return labels.empty() ? 0 : static_cast<double>(most) / static_cast<double>(labels.size());
}

Predictions parse_predictions(std::string_view text) {
  Predictions result;
  bool confident = false, at_positions = false;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1) {
      at_positions = line == fmt::format("{},confidence,sample,position", kHeader);
      confident = at_positions || line == fmt::format("{},confidence", kHeader);
      if (!confident && line != kHeader)
        bad_record(fmt::format("line 1: should be '{0}' or '{0},confidence', not {1}", kHeader,
                               abbreviated(json(line))));
      continue;
    }
    const std::string_view whole = line;
    int64_t index = 0;
    int32_t label = 0, predicted = 0, sample = 0, position = 0;
    float confidence = 0;
    const bool read = take(line, index) && take(line, label) && take(line, predicted) &&
                      (!confident || take(line, confidence)) &&
                      (!at_positions || (take(line, sample) && take(line, position))) &&
                      line.empty();
    const bool rises = result.samples.empty() || sample >= result.samples.back();
    if (!read || !rises || sample < 0 || position < 0 || index != number - 2 || label < 0 ||
        predicted < 0 || !(confidence >= 0 && confidence <= 1)) {
      bad_record(fmt::format("line {}: should be index {}, a label, a prediction{}, not {}", number,
                             number - 2, confident ? " and a confidence from 0 to 1" : "",
                             abbreviated(json(whole))));
    }
    result.labels.push_back(label);
    result.predicted.push_back(predicted);
    if (confident) result.confidence.push_back(confidence);
    if (!at_positions) continue;
    result.samples.push_back(sample);
    result.positions.push_back(position);
  }
  if (result.labels.empty()) bad_record("holds no predictions");
  return result;
}

}  // namespace lra
