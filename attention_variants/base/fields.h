// Strict reading and full writing of plain option structs.
//
// A struct lists its fields once:
//   struct NystromOptions {
//     int64_t num_landmarks = 64;
//     PseudoInverse pinv = PseudoInverse::iterative;  // an enumeration with names()
//     template <class Fields> void fields(Fields& f) {
//       f("num_landmarks", num_landmarks, at_least(1));
//       f("pinv", pinv);
//     }
//   };
// read_fields() then accepts a JSON object with those keys only (each optional: absent keeps the
// default) and write_fields() returns every effective value. Unknown keys, wrong types and values
// out of range are a UsageError that names the key, the valid ones and the nearest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "attention_variants/base/enum_names.h"
#include "attention_variants/base/error.h"

namespace lra {

using json = nlohmann::ordered_json;

/// What a value must satisfy: `holds` on its JSON form, and the words that say so ("at least 1").
struct Check {
  std::function<bool(const json&)> holds;
  std::string expected;
};

Check at_least(double low);
Check between(double low, double high);  // both included
Check more_than(double low);
Check one_of(std::vector<std::string> names);
/// A list of such, of which each holds.
Check numbers(const Check& each);
Check integers(const Check& each);
Check strings();
Check json_object();

/// Collects the field names of a struct.
struct FieldNames {
  std::vector<std::string> names;
  template <class T>
  void operator()(const char* name, T&, const Check& = {}) {
    names.push_back(name);
  }
};

/// A struct with `template <class Fields> void fields(Fields&)`.
template <class T>
concept HasFields = requires(T& t, FieldNames& f) {
  t.fields(f);
};

/// Throws UsageError unless `object` is a JSON object whose keys are all in `names`.
void check_keys(const json& object, const std::vector<std::string>& names,
                const std::string& where);

/// Throws UsageError: "<where>: <name> should be <expected>, not <value>".
[[noreturn]] void bad_value(const std::string& where, const std::string& name,
                            const std::string& expected, const json& value);

/// The place of a struct within another: "protocol x.training", of an option "--set training".
std::string place_within(const std::string& where, const std::string& name);

struct FieldReader {
  const json& object;
  const std::string& where;

  template <class T>
  void operator()(const char* name, T& value, const Check& check = {}) {
    const auto it = object.find(name);
    if (it == object.end()) return;
    if constexpr (HasFields<T>) {
      const std::string inner = place_within(where, name);
      FieldNames known;
      value.fields(known);
      check_keys(*it, known.names, inner);
      FieldReader reader{*it, inner};
      value.fields(reader);
    } else {
      if constexpr (std::is_same_v<T, bool>) {
        if (!it->is_boolean()) bad_value(where, name, "true or false", *it);
      } else if constexpr (std::is_integral_v<T>) {
        if (!it->is_number_integer())
          bad_value(where, name, check.holds ? "an integer, " + check.expected : "an integer", *it);
        if (std::is_unsigned_v<T> && !it->is_number_unsigned())
          bad_value(where, name, "an integer of at least 0", *it);
        if (std::is_signed_v<T> && it->is_number_unsigned() &&
            it->template get<uint64_t>() > INT64_MAX) {
          bad_value(where, name, "an integer below 2^63", *it);
        }
      } else if constexpr (std::is_floating_point_v<T>) {
        if (!it->is_number())
          bad_value(where, name, check.holds ? "a number, " + check.expected : "a number", *it);
      } else if constexpr (std::is_same_v<T, std::string>) {
        if (!it->is_string())
          bad_value(where, name, check.holds ? check.expected : "a string", *it);
      }
      if (check.holds && !check.holds(*it)) bad_value(where, name, check.expected, *it);
      if constexpr (HasNames<T>) {
        const auto named =
            it->is_string() ? parse_name<T>(it->template get<std::string>()) : std::optional<T>();
        if (!named) bad_value(where, name, one_of(all_names<T>()).expected, *it);
        value = *named;
      } else {
        value = it->template get<T>();
      }
    }
  }
};

struct FieldWriter {
  json object = json::object();
  template <class T>
  void operator()(const char* name, T& value, const Check& = {}) {
    if constexpr (HasFields<T>) {
      FieldWriter inner;
      value.fields(inner);
      object[name] = inner.object;
    } else if constexpr (HasNames<T>) {
      object[name] = to_string(value);
    } else {
      object[name] = value;
    }
  }
};

/// The names of a struct's fields, in order.
template <HasFields T>
std::vector<std::string> field_names(T value = {}) {
  FieldNames names;
  value.fields(names);
  return names.names;
}

/// Sets the fields of `value` that `object` holds. `where` names the place in messages ("attention
/// nystrom").
template <HasFields T>
void read_fields(const json& object, T& value, const std::string& where) {
  check_keys(object, field_names(value), where);
  FieldReader reader{object, where};
  value.fields(reader);
}

/// Every field with its effective value.
template <HasFields T>
json write_fields(T value) {
  FieldWriter writer;
  value.fields(writer);
  return writer.object;
}

/// The JSON value that a word of a command line stands for: 32, 0.5, true, null, [1,2], else the
/// word as a string.
json value_from_text(const std::string& text);

/// Its inverse: a string without quotes, else JSON.
std::string text_from_value(const json& value);

}  // namespace lra
