#include "results/published/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace lra {

PublishedVariant parse_variant(std::string_view text) {
  PublishedVariant variant;
  const size_t open = text.find('[');
  variant.name = std::string(text.substr(0, open));
  const auto malformed = [&] {
    return std::runtime_error(
        fmt::format("variant '{}' should be name or name[key=value,...]", text));
  };
  if (variant.name.empty()) throw malformed();
  if (open == std::string_view::npos) return variant;
  if (text.back() != ']') throw malformed();
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) throw malformed();
    variant.options[std::string(item.substr(0, equals))] =
        value_from_text(std::string(item.substr(equals + 1)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return variant;
}

bool PublishedVariant::matches(const AttentionRecord& attention) const {
  if (attention.name != name) return false;
  json given = attention.options;
  const bool from_label = !given.is_object() || given.empty();
  if (from_label) {
    try {
      given = parse_variant(attention.label).options;
    } catch (const std::exception&) {
      return false;
    }
  }
  for (const auto& [key, value] : options.items()) {
    const auto it = given.find(key);
    if (it == given.end() ? !from_label : *it != value) return false;
  }
  return true;
}

bool PublishedAccuracy::Row::matches(const AttentionRecord& attention) const {
  if (!variant || (!variant->matches(attention) && attention.name != released_form)) return false;
  // How it is computed, which decides no accuracy.
  constexpr std::string_view kHow[] = {"implementation"};
  try {
    const json given = parse_variant(attention.label).options;
    return std::ranges::all_of(given.items(), [&](const auto& option) {
      return variant->options.contains(option.key()) ||
             std::ranges::count(kHow, std::string_view(option.key())) > 0;
    });
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<double> PublishedAccuracy::value(const std::string& task,
                                               const AttentionRecord& attention) const {
  const auto it = std::find(tasks.begin(), tasks.end(), task);
  const Row* of = row(attention);
  if (it == tasks.end() || of == nullptr) return std::nullopt;
  return of->values[static_cast<size_t>(it - tasks.begin())];
}

const PublishedAccuracy::Row* PublishedAccuracy::row(const AttentionRecord& attention) const {
  const auto it = std::ranges::find_if(rows, [&](const Row& r) { return r.matches(attention); });
  return it == rows.end() ? nullptr : &*it;
}

}  // namespace lra
