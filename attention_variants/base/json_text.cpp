#include "attention_variants/base/json_text.h"

#include <fmt/format.h>

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
      out.push_back(fmt::format("{}: {} -> {}", path, printable_json(from), printable_json(to)));
  }
  return out;
}

std::string differences_text(const json& a, const json& b) {
  const std::vector<std::string> all = differences(a, b);
  if (all.empty()) return "";
  return all.front() + (all.size() > 1 ? " and " + std::to_string(all.size() - 1) + " more" : "");
}

}  // namespace lra
