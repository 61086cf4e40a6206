#include "lra/config/once.h"

#include <filesystem>
#include <map>
#include <set>
#include <system_error>

namespace lra {
namespace {

template <class Number>
std::vector<std::string> texts_of(const std::vector<Number>& numbers) {
  std::vector<std::string> texts;
  for (const Number number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

// Whatever options were given that are the defaults, and however the path of a file was written.
std::string meaning_of(AttentionSpec spec) {
  const auto file = spec.options.find("file");
  if (file != spec.options.end() && file->is_string()) {
    std::error_code none;
    *file = std::filesystem::weakly_canonical(file->get<std::string>(), none).string();
    return spec.text();
  }
  try {
    return spec.name + attention_entry(spec.name).effective_options(spec.options).dump();
  } catch (
      const UsageError&) {  // a word for all, or what whoever makes it refuses in its own words
    return spec.text();
  }
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
  std::map<std::string, std::string> known;  // what it is, and how it was named
  for (const AttentionSpec& attention : attentions) {
    const auto [it, fresh] = known.emplace(meaning_of(attention), attention.text());
    if (fresh) continue;
    if (it->second == attention.text())
      throw UsageError(option + " names " + attention.text() + " twice");
    throw UsageError(option + " names one attention twice, as " + it->second + " and as " +
                     attention.text());
  }
}

}  // namespace lra
