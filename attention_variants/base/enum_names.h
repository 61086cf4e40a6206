// The words of an enumeration, listed once beside it in the order of its values:
//   enum class Norm { pre, post };
//   constexpr auto names(Norm) { return std::array{"pre", "post"}; }
// Fields, records, JSON and fmt then hold the word.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

namespace lra {

template <class E>
concept HasNames = std::is_enum_v<E> && requires(E value) {
  names(value);
};

template <HasNames E>
std::string to_string(E value) {
  return names(value)[static_cast<size_t>(value)];
}

/// All words, in the order of the values.
template <HasNames E>
std::vector<std::string> all_names() {
  const auto words = names(E{});
  return {words.begin(), words.end()};
}

/// All values, in their order.
template <HasNames E>
std::vector<E> all_values() {
  std::vector<E> values(names(E{}).size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<E>(i);
  return values;
}

/// The value of a word; nothing where it is none.
template <HasNames E>
std::optional<E> parse_name(std::string_view word) {
  const auto words = names(E{});
  const auto it = std::ranges::find(words, word);
  if (it == words.end()) return std::nullopt;
  return static_cast<E>(it - words.begin());
}

}  // namespace lra

template <lra::HasNames E>
struct fmt::formatter<E> : fmt::formatter<std::string> {
  template <class Context>
  auto format(E value, Context& context) const {
    return fmt::formatter<std::string>::format(lra::to_string(value), context);
  }
};

// For enumerations of every namespace; without it JSON would hold the number.
template <lra::HasNames E>
struct nlohmann::adl_serializer<E> {
  template <class Json>
  static void to_json(Json& json, E value) {
    json = lra::to_string(value);
  }
};
