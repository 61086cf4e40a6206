#include "attention_variants/base/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention_variants/base/json_text.h"

namespace lra {
namespace {

// All digits of a whole number, and as few of another as tell it apart.
std::string number_text(double x) {
  constexpr double kMostWhole = 1e15;
  return std::trunc(x) == x && std::abs(x) < kMostWhole ? fmt::format("{:.0f}", x)
                                                        : fmt::format("{}", x);
}

Check list_of(const std::function<bool(const json&)>& holds, const std::string& expected) {
  return {[holds](const json& v) { return v.is_array() && std::ranges::all_of(v, holds); },
          "a list of " + expected};
}

}  // namespace

Check at_least(double low) {
  return {[low](const json& v) { return v.get<double>() >= low; }, "at least " + number_text(low)};
}

Check more_than(double low) {
  return {[low](const json& v) { return v.get<double>() > low; }, "more than " + number_text(low)};
}

Check between(double low, double high) {
  return {[low, high](const json& v) { return v.get<double>() >= low && v.get<double>() <= high; },
          "from " + number_text(low) + " to " + number_text(high)};
}

Check one_of(std::vector<std::string> names) {
  std::string expected = "one of";
  for (size_t i = 0; i < names.size(); ++i) expected += (i == 0 ? " " : ", ") + names[i];
  return {[names](const json& v) {
            return v.is_string() && std::ranges::count(names, v.get<std::string>()) > 0;
          },
          expected};
}

Check numbers(const Check& each) {
  return list_of([each](const json& v) { return v.is_number() && each.holds(v); },
                 "numbers, each " + each.expected);
}

Check integers(const Check& each) {
  return list_of([each](const json& v) { return v.is_number_integer() && each.holds(v); },
                 "integers " + each.expected);
}

Check strings() { return list_of(&json::is_string, "strings"); }

Check json_object() { return {&json::is_object, "a JSON object"}; }

void check_keys(const json& object, const std::vector<std::string>& names,
                const std::string& where) {
  if (!object.is_object()) {
    throw UsageError(where + " should be a JSON object, not " + printable_json(object));
  }
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(names, key) == names.end()) throw unknown_name("key", key, names, where);
  }
}

std::string place_within(const std::string& where, const std::string& name) {
  if (where.empty()) return name;
  const bool option = where.starts_with("--") && where.find(' ') == where.npos;
  return where + (option ? " " : ".") + name;
}

void bad_value(const std::string& where, const std::string& name, const std::string& expected,
               const json& value) {
  throw UsageError((where.empty() ? "" : where + ": ") + name + " should be " + expected +
                   ", not " + printable_json(value));
}

json value_from_text(const std::string& text) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json(text) : value;
}

std::string text_from_value(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace lra
