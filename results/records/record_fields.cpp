#include "results/records/record_fields.h"

#include <algorithm>
#include <cmath>

namespace lra {

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json make_interval(const stats::Interval& interval) {
  return json::array({finite_or_null(interval.low), finite_or_null(interval.high)});
}

RecordReader::RecordReader(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object())
    bad_record(fmt::format("{} should be an object, not {}", where_.empty() ? "the record" : where_,
                           abbreviated(object_)));
}

const json* RecordReader::find(const char* name) const {
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const json& RecordReader::at(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) bad_record(fmt::format("field '{}' is missing", path(name)));
  return *value;
}

void RecordReader::pair(const char* name, std::optional<stats::Interval>& value,
                        const char* what) const {
  const json* found = find(name);
  if (found == nullptr) return;
  if (!found->is_array() || found->size() != 2)
    bad_record(
        fmt::format("field '{}' should be {}, not {}", path(name), what, abbreviated(*found)));
  value = stats::Interval{as_number(name, (*found)[0], 0, kHuge),
                          as_number(name, (*found)[1], 0, kHuge)};
}

void RecordReader::schema(const char* expected) const {
  const std::string schema = as_text("schema", at("schema"));
  if (schema != expected) {
    bad_record(fmt::format("schema {} is not one that this program reads ({})",
                           abbreviated(json(schema)), expected));
  }
}

std::string RecordReader::as_text(const char* name, const json& value) const {
  if (!value.is_string())
    bad_record(
        fmt::format("field '{}' should be a string, not {}", path(name), abbreviated(value)));
  return value.get<std::string>();
}

std::string RecordReader::as_word(const char* name, const json& value,
                                  const std::vector<std::string>& words) const {
  const std::string word = as_text(name, value);
  if (std::ranges::find(words, word) == words.end()) {
    bad_record(fmt::format("field '{}' should be one of {}, not {}", path(name),
                           fmt::join(words, ", "), abbreviated(json(word))));
  }
  return word;
}

int64_t RecordReader::as_integer(const char* name, const json& value, int64_t least) const {
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                        : value.is_number_integer();
  if (!fits || value.get<int64_t>() < least) {
    bad_record(fmt::format("field '{}' should be an integer of at least {}, not {}", path(name),
                           least, abbreviated(value)));
  }
  return value.get<int64_t>();
}

double RecordReader::as_number(const char* name, const json& value, double least,
                               double most) const {
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

void RecordReader::check_array(const char* name, const json& value) const {
  if (!value.is_array())
    bad_record(
        fmt::format("field '{}' should be an array, not {}", path(name), abbreviated(value)));
}

void RecordReader::set(const char* name, const json& found, uint64_t& value, const Limits&) const {
  if (!found.is_number_unsigned())
    bad_record(fmt::format("field '{}' should be an integer of at least 0, not {}", path(name),
                           abbreviated(found)));
  value = found.get<uint64_t>();
}

void RecordReader::set(const char* name, const json& found, bool& value, const Limits&) const {
  if (!found.is_boolean())
    bad_record(
        fmt::format("field '{}' should be true or false, not {}", path(name), abbreviated(found)));
  value = found.get<bool>();
}

void RecordReader::set(const char* name, const json& found, stats::Interval& value,
                       const Limits& limits) const {
  if (!found.is_array() || found.size() != 2)
    bad_record(
        fmt::format("field '{}' should be [low, high], not {}", path(name), abbreviated(found)));
  value = {as_number(name, found[0], limits.least, limits.most),
           as_number(name, found[1], limits.least, limits.most)};
  if (value.low > value.high)
    bad_record(fmt::format("field '{}' has its ends the wrong way round", path(name)));
}

void RecordReader::set(const char* name, const json& found, json& object, const Limits&) const {
  if (!found.is_object())
    bad_record(
        fmt::format("field '{}' should be an object, not {}", path(name), abbreviated(found)));
  object = found;
}

void RecordReader::set(const char* name, const json& found, std::vector<double>& value,
                       const Limits& limits) const {
  check_array(name, found);
  for (const json& one : found) value.push_back(as_number(name, one, limits.least, limits.most));
}

json RecordWriter::json_of(const std::vector<double>& value) {
  json array = json::array();
  for (const double one : value) array.push_back(finite_or_null(one));
  return array;
}

}  // namespace lra
