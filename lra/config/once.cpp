#include "lra/config/once.h"

#include <set>

namespace lra {

void check_once(const std::string& option, const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const std::string& name : names) {
    if (!known.insert(name).second) throw UsageError(option + " names " + name + " twice");
  }
}

void check_once(const std::string& option, const std::vector<int64_t>& numbers) {
  std::vector<std::string> names;
  for (const int64_t number : numbers) names.push_back(std::to_string(number));
  check_once(option, names);
}

void check_once(const std::string& option, const std::vector<AttentionSpec>& attentions) {
  std::vector<std::string> names;
  for (const AttentionSpec& attention : attentions) names.push_back(attention.text());
  check_once(option, names);
}

}  // namespace lra
