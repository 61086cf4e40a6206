// What the readers and writers of all record schemas share: strict fields of a JSON object.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "results/records/json_line.h"
#include "results/records/status.h"
#include "results/statistics/interval.h"

namespace lra {

[[noreturn]] inline void bad_record(const std::string& text) { throw std::runtime_error(text); }

/// What nothing measured reaches: beyond it sums and squares would overflow.
inline constexpr double kHuge = 1e150;

/// Reads the fields of one object; `where` is its dotted path, "" at the top.
class RecordReader {
 public:
  RecordReader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object())
      bad_record(fmt::format("{} should be an object, not {}",
                             where_.empty() ? "the record" : where_, abbreviated(object_)));
  }

  const json* find(const char* name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  const json& at(const char* name) const {
    const json* value = find(name);
    if (value == nullptr) bad_record(fmt::format("field '{}' is missing", path(name)));
    return *value;
  }
  std::string path(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

  std::string text(const char* name) const { return as_text(name, at(name)); }
  std::string text_or(const char* name, const std::string& fallback) const {
    const json* value = find(name);
    return value == nullptr ? fallback : as_text(name, *value);
  }
  std::string word(const char* name, std::span<const std::string_view> words) const {
    const std::string value = text(name);
    if (std::find(words.begin(), words.end(), value) == words.end()) {
      bad_record(fmt::format("field '{}' should be one of {}, not {}", path(name),
                             fmt::join(words, ", "), abbreviated(json(value))));
    }
    return value;
  }
  int64_t integer(const char* name, int64_t least) const {
    return as_integer(name, at(name), least);
  }
  std::optional<int64_t> integer_if(const char* name, int64_t least) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    return as_integer(name, *value, least);
  }
  uint64_t natural(const char* name) const {
    const json& value = at(name);
    if (!value.is_number_unsigned())
      bad_record(fmt::format("field '{}' should be an integer of at least 0, not {}", path(name),
                             abbreviated(value)));
    return value.get<uint64_t>();
  }
  bool flag(const char* name) const {
    const json& value = at(name);
    if (!value.is_boolean())
      bad_record(fmt::format("field '{}' should be true or false, not {}", path(name),
                             abbreviated(value)));
    return value.get<bool>();
  }
  double number(const char* name, double least, double most) const {
    return as_number(name, at(name), least, most);
  }
  std::optional<double> number_if(const char* name, double least, double most) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    return as_number(name, *value, least, most);
  }
  std::optional<stats::Interval> interval_if(const char* name, double least, double most) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_array() || value->size() != 2)
      bad_record(
          fmt::format("field '{}' should be [low, high], not {}", path(name), abbreviated(*value)));
    const stats::Interval interval{as_number(name, (*value)[0], least, most),
                                   as_number(name, (*value)[1], least, most)};
    if (interval.low > interval.high)
      bad_record(fmt::format("field '{}' has its ends the wrong way round", path(name)));
    return interval;
  }
  json object_or_empty(const char* name) const {
    const json* value = find(name);
    if (value == nullptr) return json::object();
    if (!value->is_object())
      bad_record(
          fmt::format("field '{}' should be an object, not {}", path(name), abbreviated(*value)));
    return *value;
  }

  std::string as_text(const char* name, const json& value) const {
    if (!value.is_string())
      bad_record(
          fmt::format("field '{}' should be a string, not {}", path(name), abbreviated(value)));
    return value.get<std::string>();
  }
  int64_t as_integer(const char* name, const json& value, int64_t least) const {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                          : value.is_number_integer();
    if (!fits || value.get<int64_t>() < least) {
      bad_record(fmt::format("field '{}' should be an integer of at least {}, not {}", path(name),
                             least, abbreviated(value)));
    }
    return value.get<int64_t>();
  }
  double as_number(const char* name, const json& value, double least, double most) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < least ||
        value.get<double>() > most) {
      const bool above = value.is_number() && value.get<double>() > most;
      const std::string range = most >= kHuge && !above ? fmt::format("of at least {}", least)
                                                        : fmt::format("from {} to {}", least, most);
      bad_record(fmt::format("field '{}' should be a number {}, not {}", path(name), range,
                             abbreviated(value)));
    }
    return value.get<double>();
  }

 private:
  const json& object_;
  std::string where_;
};

/// Numbers that are not finite are null.
json finite_or_null(double value);
json make_interval(const stats::Interval& interval);

/// Sets object[name] where there is a value.
void set_if(json& object, const char* name, const std::optional<double>& value);
void set_if(json& object, const char* name, const std::optional<int64_t>& value);

/// The record's "status".
Status read_status(const RecordReader& reader);

/// Throws unless the record's "schema" is `expected`.
void check_schema(const RecordReader& reader, const char* expected);

}  // namespace lra
