#include "lra/config/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>

namespace lra {
namespace {

ParameterGroup parameter_group(const json& entry, const std::string& where) {
  check_keys(entry, {"match", "lr", "weight_decay"}, where);
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
  return groups;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace lra
