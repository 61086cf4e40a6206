#include "attention_variants/base/json_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/base/text.h"

namespace lra {
namespace {

void collect(const json& left, const json& right, const std::string& path,
             std::vector<JsonDifference>& out) {
  if (!left.is_object() || !right.is_object()) {
    if (left != right) out.push_back({path, left, right});
    return;
  }
  const auto inner = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  for (const auto& [key, value] : left.items()) {
    if (right.contains(key)) {
      collect(value, right.at(key), inner(key), out);
    } else {
      out.push_back({inner(key), value, std::nullopt});
    }
  }
  for (const auto& [key, value] : right.items()) {
    if (!left.contains(key)) out.push_back({inner(key), std::nullopt, value});
  }
}

// As on a command line: the values of a list between commas, strings without quotes.
std::string word_text(const std::optional<json>& value) {
  if (!value || value->is_null() || *value == "") return "none";
  if (!value->is_array()) return printable(text_from_value(*value), 200);
  std::string text;
  for (const json& one : *value) text += (text.empty() ? "" : ",") + text_from_value(one);
  return text.empty() ? "none" : printable(text, 200);
}

// The words of a list that another has not.
json only_in(const json& list, const json& other) {
  json words = json::array();
  for (const json& one : list) {
    if (std::ranges::find(other, one) == other.end()) words.push_back(one);
  }
  return words;
}

std::string there_and_here_text(const std::string& name, const std::optional<json>& there,
                                const std::optional<json>& here) {
  constexpr size_t kShort = 120;  // of a list that is named whole
  if (there && here && there->is_array() && here->is_array() &&
      std::max(there->dump().size(), here->dump().size()) > kShort) {
    const json left = only_in(*there, *here), right = only_in(*here, *there);
    if (!left.empty() || !right.empty())
      return fmt::format("{} {} there alone, {} here alone", name, word_text(left),
                         word_text(right));
  }
  return fmt::format("{} {} there, {} here", name, word_text(there), word_text(here));
}

}  // namespace

std::string printable_json(const json& value) { return printable(value.dump(), 200); }

json::json_pointer dotted_pointer(const std::string& path) {
  std::string text = "/" + path;
  std::ranges::replace(text, '.', '/');
  return json::json_pointer(text);
}

std::vector<JsonDifference> json_differences(const json& left, const json& right) {
  std::vector<JsonDifference> found;
  collect(left, right, "", found);
  return found;
}

std::vector<std::string> differences(const json& a, const json& b) {
  std::vector<std::string> out;
  for (const auto& [path, left, right] : json_differences(a, b)) {
    // A key that is not there says the same as null.
    const json from = left.value_or(json()), to = right.value_or(json());
    if (from != to)
      out.push_back(
          fmt::format("{}: {} -> {}", path, printable(from.dump()), printable(to.dump())));
  }
  return out;
}

std::string differences_text(const json& a, const json& b) {
  const std::vector<std::string> all = differences(a, b);
  if (all.empty()) return "";
  return printable(all.front(), 400) +
         (all.size() > 1 ? " and " + std::to_string(all.size() - 1) + " more" : "");
}

std::string there_and_here(const json& there, const json& here, const std::vector<NamedKey>& keys) {
  constexpr size_t kMost = 4;
  std::vector<std::string> found;
  for (const NamedKey& key : keys) {
    const json left = there.value(key.key, json()), right = here.value(key.key, json());
    if (left != right) found.push_back(there_and_here_text(key.option, left, right));
  }
  if (keys.empty()) {
    for (const auto& [path, left, right] : json_differences(there, here)) {
      if (left.value_or(json()) != right.value_or(json()))
        found.push_back(there_and_here_text(path, left, right));
    }
    if (found.size() > kMost) {
      const size_t more = found.size() - kMost;
      found.resize(kMost);
      found.push_back(fmt::format("{} more", more));
    }
  }
  return fmt::format("{}", fmt::join(found, "; "));
}

}  // namespace lra
