#include "lra/config/once.h"

#include <set>

namespace lra {
namespace {

template <class Number>
std::vector<std::string> texts_of(const std::vector<Number>& numbers) {
  std::vector<std::string> texts;
  for (const Number number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

}  // namespace

void check_once(const std::string& option, const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const std::string& name : names) {
    if (!known.insert(name).second) throw UsageError(option + " names " + name + " twice");
  }
}

void check_once(const std::string& option, const std::vector<int64_t>& numbers) {
  check_once(option, texts_of(numbers));
}

void check_once(const std::string& option, const std::vector<uint64_t>& numbers) {
  check_once(option, texts_of(numbers));
}

void check_once(const std::string& option, const std::vector<AttentionSpec>& attentions) {
  std::vector<std::string> names;
  for (const AttentionSpec& attention : attentions) names.push_back(attention.text());
  check_once(option, names);
}

}  // namespace lra
