// Reading and writing records. Each schema lists its fields once, in a generic lambda that both
// read_record() and write_record() call:
//   constexpr auto pass_fields = [](auto& f, auto& pass) {
//     f("samples", pass.samples, Presence::required, {.least = 1});
//     f("noisy", pass.noisy, Presence::sparse);
//   };
// A reader passes over keys it does not know and takes null for absent.
#pragma once

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "results/records/json_line.h"
#include "results/records/status.h"
#include "results/statistics/interval.h"

namespace lra {

[[noreturn]] inline void bad_record(const std::string& text) { throw std::runtime_error(text); }

/// What nothing measured reaches: beyond it sums and squares would overflow.
inline constexpr double kHuge = 1e150;

/// What an absent field means, and when a field is written.
enum class Presence {
  required,  // absent: an error; always written
  optional,  // absent: the default; always written
  nullable,  // absent: the default; written as null where it is empty
  sparse,    // absent: the default; left out where it is empty
};

inline constexpr Presence required_if(bool condition) {
  return condition ? Presence::required : Presence::sparse;
}

/// Of a number, both included.
struct Limits {
  double least = 0, most = kHuge;
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// std::optional has a state for absence; everything else is required unless a schema says so.
template <class T>
inline constexpr Presence kUsual = kIsOptional<T> ? Presence::sparse : Presence::required;

/// Reads the fields of one object; `where` is its dotted path, "" at the top. Throws
/// std::runtime_error that names the field, what was expected and what was found.
class RecordReader {
 public:
  static constexpr bool kReads = true;

  RecordReader(const json& object, std::string where);

  const json* find(const char* name) const;
  const json& at(const char* name) const;
  std::string path(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

  template <class T>
  void operator()(const char* name, T& value, Presence presence = kUsual<T>,
                  const Limits& limits = {}) const {
    if (const json* found = sought(name, presence)) set(name, *found, value, limits);
  }

  /// Two numbers in any order; `what` names them: "[before, after]".
  void pair(const char* name, std::optional<stats::Interval>& value, const char* what) const;

  /// What `parse` makes of the field.
  template <class T, class Make, class Parse>
  void part(const char* name, T& value, const Make&, const Parse& parse,
            Presence presence = kUsual<T>) const {
    if (const json* found = sought(name, presence)) value = parse(*found);
  }
  /// An array of objects, each of whose fields `visit(fields, entry)` lists.
  template <class T, class Visit>
  void list(const char* name, std::vector<T>& value, Presence presence, const Visit& visit) const {
    const json* found = sought(name, presence);
    if (found == nullptr) return;
    check_array(name, *found);
    for (const json& one : *found) {
      const RecordReader inner(one, path(name));
      visit(inner, value.emplace_back());
    }
  }
  /// An object whose fields `visit` lists.
  template <class Visit>
  void group(const char* name, Presence presence, const Visit& visit) const {
    const json* found = sought(name, presence);
    if (found == nullptr) return;
    RecordReader inner(*found, path(name));
    visit(inner);
  }
  /// A field that decides how others before it are read.
  template <class T>
  void ahead(const char* name, T& value) const {
    (*this)(name, value);
  }
  /// A text for readers, which no reader of the record uses.
  void note(const char*, const char*) const {}
  /// Throws unless the field "schema" is `expected`.
  void schema(const char* expected) const;

  std::string as_text(const char* name, const json& value) const;
  std::string as_word(const char* name, const json& value,
                      const std::vector<std::string>& words) const;
  int64_t as_integer(const char* name, const json& value, int64_t least) const;
  double as_number(const char* name, const json& value, double least, double most) const;
  void check_array(const char* name, const json& value) const;

 private:
  const json* sought(const char* name, Presence presence) const {
    return presence == Presence::required ? &at(name) : find(name);
  }

  void set(const char* name, const json& found, std::string& value, const Limits&) const {
    value = as_text(name, found);
  }
  void set(const char* name, const json& found, int64_t& value, const Limits& limits) const {
    value = as_integer(name, found, static_cast<int64_t>(limits.least));
  }
  void set(const char* name, const json& found, double& value, const Limits& limits) const {
    value = as_number(name, found, limits.least, limits.most);
  }
  void set(const char* name, const json& found, uint64_t& value, const Limits&) const;
  void set(const char* name, const json& found, bool& value, const Limits&) const;
  template <HasNames E>
  void set(const char* name, const json& found, E& value, const Limits&) const {
    value = *parse_name<E>(as_word(name, found, all_names<E>()));
  }
  void set(const char* name, const json& found, stats::Interval& value, const Limits& limits) const;
  void set(const char* name, const json& found, json& object, const Limits&) const;
  void set(const char* name, const json& found, std::vector<double>& value,
           const Limits& limits) const;
  template <class T>
  void set(const char* name, const json& found, std::vector<T>& value, const Limits& limits) const {
    check_array(name, found);
    for (const json& one : found) set(name, one, value.emplace_back(), limits);
  }
  template <class T>
  void set(const char* name, const json& found, std::optional<T>& value,
           const Limits& limits) const {
    set(name, found, value.emplace(), limits);
  }

  const json& object_;
  std::string where_;
};

/// Numbers that are not finite are null.
json finite_or_null(double value);
json make_interval(const stats::Interval& interval);

/// Writes the fields into `object`, in the order in which they are visited.
class RecordWriter {
 public:
  static constexpr bool kReads = false;

  json object = json::object();

  template <class T>
  void operator()(const char* name, const T& value, Presence presence = kUsual<T>,
                  const Limits& = {}) {
    if constexpr (kIsOptional<T>) {
      if (value) object[name] = json_of(*value);
      if (!value && presence == Presence::nullable) object[name] = nullptr;
    } else {
      const bool empty = is_empty(value);
      if (empty && presence == Presence::sparse) return;
      object[name] = empty && presence == Presence::nullable ? json(nullptr) : json_of(value);
    }
  }

  void pair(const char* name, const std::optional<stats::Interval>& value, const char*) {
    if (value) object[name] = make_interval(*value);
  }
  template <class T, class Make, class Parse>
  void part(const char* name, const T& value, const Make& make, const Parse&,
            Presence presence = kUsual<T>) {
    if constexpr (kIsOptional<T>) {
      if (value) object[name] = make(*value);
      if (!value && presence == Presence::nullable) object[name] = nullptr;
    } else {
      object[name] = make(value);
    }
  }
  template <class T, class Visit>
  void list(const char* name, const std::vector<T>& value, Presence presence, const Visit& visit) {
    if (value.empty() && presence == Presence::sparse) return;
    json array = json::array();
    for (const T& one : value) {
      RecordWriter inner;
      visit(inner, one);
      array.push_back(std::move(inner.object));
    }
    object[name] = std::move(array);
  }
  template <class Visit>
  void group(const char* name, Presence, const Visit& visit) {
    RecordWriter inner;
    visit(inner);
    object[name] = std::move(inner.object);
  }
  template <class T>
  void ahead(const char*, const T&) {}
  void note(const char* name, const char* text) { object[name] = text; }
  void schema(const char* name) { object["schema"] = name; }

 private:
  template <class T>
  static bool is_empty(const T& value) {
    if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else {
      return false;
    }
  }
  template <class T>
  static json json_of(const T& value) {
    return value;
  }
  static json json_of(double value) { return finite_or_null(value); }
  static json json_of(const stats::Interval& value) { return make_interval(value); }
  static json json_of(const std::vector<double>& value);
};

template <class T, class Visit>
json write_record(const T& record, const Visit& visit) {
  RecordWriter writer;
  visit(writer, record);
  return writer.object;
}

/// `where` is its dotted path, "" at the top. Throws as RecordReader does.
template <class T, class Visit>
T read_record(const json& value, const std::string& where, const Visit& visit) {
  T record;
  const RecordReader reader(value, where);
  visit(reader, record);
  return record;
}

}  // namespace lra
