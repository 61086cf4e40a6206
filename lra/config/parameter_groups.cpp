#include "lra/config/parameter_groups.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

namespace lra {
namespace {

ParameterGroup parameter_group(const json& entry, const std::string& where) {
  check_keys(entry, {"match", "lr", "lr_factor", "weight_decay"}, where);
  const json match = entry.value("match", json::array());
  const bool patterns =
      match.is_array() && !match.empty() && std::ranges::all_of(match, [](const json& item) {
        return item.is_string() && !item.get<std::string>().empty();
      });
  if (!patterns) bad_value(where, "match", "a list of patterns of parameters' names", match);
  ParameterGroup group{.match = match.get<std::vector<std::string>>(),
                       .lr = std::nullopt,
                       .weight_decay = std::nullopt};
  const auto read = [&](const char* name, std::optional<double>& value, const Check& check) {
    if (!entry.contains(name)) return;
    double given = 0;
    FieldReader{entry, where}(name, given, check);
    value = given;
  };
  read("lr", group.lr, more_than(0));
  read("weight_decay", group.weight_decay, at_least(0));
  return group;
}

}  // namespace

Check list_of_objects() {
  return {[](const json& value) {
            return value.is_array() &&
                   std::ranges::all_of(value, [](const json& item) { return item.is_object(); });
          },
          "a list of JSON objects"};
}

std::vector<ParameterGroup> parameter_groups(const json& list) {
  std::vector<ParameterGroup> groups;
  for (const json& entry : list)
    groups.push_back(
        parameter_group(entry, "optimizer.groups[" + std::to_string(groups.size()) + "]"));
  // One before others keeps its parameters from those.
  if (!groups.empty() && !groups.back().lr && !groups.back().weight_decay &&
      !list.back().contains("lr_factor")) {
    throw UsageError(
        fmt::format("optimizer.groups[{}] changes nothing: give it lr, lr_factor or weight_decay, "
                    "or leave it out",
                    groups.size() - 1));
  }
  return groups;
}

json with_rates(const json& list, double lr) {
  json rated = json::array();
  for (const json& entry : list) {
    const std::string where = "optimizer.groups[" + std::to_string(rated.size()) + "]";
    json group = json::object();  // in the same order, as records have it
    for (const auto& [key, value] : entry.items()) {
      if (key != "lr_factor") {
        group[key] = value;
        continue;
      }
      if (entry.contains("lr")) throw UsageError(where + ": give lr or lr_factor, not both");
      double factor = 0;
      FieldReader{entry, where}("lr_factor", factor, more_than(0));
      group["lr"] = factor * lr;
    }
    rated.push_back(std::move(group));
  }
  return rated;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace lra
