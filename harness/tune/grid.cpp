#include "harness/tune/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "attention_variants/base/text.h"
#include "lra/config/protocol.h"

namespace lra::tune {
namespace {

constexpr const char* kForm = "key=value,value, as optimizer.lr=1e-4,3e-4";

// What a cell's score is of: the best of how many looks at how many samples.
constexpr const char* kScored[] = {"training.evaluate_every", "evaluation.select_after",
                                   "evaluation.drop_last", "evaluation.batch"};

// One word of --grid.
struct Axis {
  std::string key;
  Point words;  // "key=value", one a value
};

std::string key_of(const std::string& word) { return word.substr(0, word.find('=')); }

// One is the other, or the group that it is in.
bool is_within(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

// `word`: "key=value".
void check_free(const std::string& word, const char* option) {
  if (!word_sets(word, kTested)) return;
  throw UsageError(fmt::format(
      "{} {}: a search chooses on dev alone and leaves the test split unread, so that it sets {} "
      "itself; leave that out",
      option, key_of(word), kTested));
}

// `one`: "key=value", a point of the axis `key`.
void check_comparable(const std::string& one, const std::string& key) {
  if (word_sets(one, "training.objective")) {
    throw UsageError(
        fmt::format("--grid {}: accuracies of labels, hidden and next tokens do not compare; make "
                    "a search of each objective, by --set",
                    key));
  }
  for (const char* scored : kScored) {
    if (!word_sets(one, scored)) continue;
    throw UsageError(
        fmt::format("--grid {}: the best of more evaluations, or of other samples, is no better "
                    "recipe; give {} by --set, for all points alike",
                    key, scored));
  }
}

Axis axis_of(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(fmt::format("--grid should be {}, not '{}'", kForm, word));
  Axis axis{.key = word.substr(0, equals)};
  const std::string values = word.substr(equals + 1);
  if (values.empty())
    throw UsageError(fmt::format("--grid {} names no value; it should be {}", axis.key, kForm));
  for (const std::string& text : split_at_commas(values)) {
    if (text.empty()) {
      throw UsageError(fmt::format("--grid {}: a value is missing between commas; it should be {}",
                                   axis.key, kForm));
    }
    const json value = value_from_text(text);
    const std::string one = axis.key + "=" + (value.is_string() ? text : value.dump());
    check_setting(one, "--grid");
    check_free(one, "--grid");
    check_comparable(one, axis.key);
    if (std::ranges::any_of(axis.words,
                            [&](const std::string& other) { return same_point({other}, {one}); }))
      throw UsageError(fmt::format("--grid {} names the value {} twice", axis.key, text));
    axis.words.push_back(one);
  }
  return axis;
}

std::vector<Axis> axes_of(const std::vector<std::string>& words,
                          const std::vector<std::string>& sets) {
  for (const std::string& set : sets) check_free(set, "--set");
  std::vector<Axis> axes;
  for (const std::string& word : words) {
    Axis axis = axis_of(word);
    for (const Axis& other : axes) {
      if (is_within(axis.key, other.key)) {
        throw UsageError(fmt::format("--grid gives {} twice; write all of its values in one",
                                     std::max(axis.key, other.key)));
      }
    }
    for (const std::string& set : sets) {
      if (is_within(axis.key, key_of(set))) {
        throw UsageError(fmt::format(
            "--set {} and --grid {} give the same setting; leave one of them out", set, word));
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

}  // namespace

bool same_point(const Point& a, const Point& b) {
  const auto values = [](const Point& point) {
    std::map<std::string, json> by_key;
    for (const std::string& word : point)
      by_key[key_of(word)] = value_from_text(word.substr(word.find('=') + 1));
    return by_key;
  };
  return values(a) == values(b);
}

std::string point_text(const Point& point) { return fmt::format("{}", fmt::join(point, ", ")); }

std::vector<Point> grid_points(const std::vector<std::string>& words,
                               const std::vector<std::string>& sets) {
  std::vector<Point> points(1);
  for (const Axis& axis : axes_of(words, sets)) {
    std::vector<Point> longer;
    for (const Point& point : points) {
      for (const std::string& word : axis.words) {
        longer.push_back(point);
        longer.back().push_back(word);
      }
    }
    points = std::move(longer);
  }
  if (points.front().empty())
    throw UsageError(fmt::format("--grid names no setting; it should be {}", kForm));
  return points;
}

}  // namespace lra::tune
