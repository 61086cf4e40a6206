#include "results/store/suite_budget.h"

#include <fstream>
#include <sstream>
#include <system_error>

#include "attention_variants/base/json_fault.h"
#include "results/records/file_names.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

constexpr int kSuiteDepth = 64;
constexpr std::uintmax_t kSuiteBytes = 64 << 20;

// Null where it is no JSON.
json parsed_text(const std::string& text) {
  if (json_fault(text, kSuiteDepth).kind != JsonFault::Kind::none) return {};
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json() : value;
}

json parsed(const std::filesystem::path& file) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code) ||
      std::filesystem::file_size(file, code) > kSuiteBytes || code)
    return {};
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return parsed_text(text.str());
}

const json* member(const json& value, const char* name) {
  if (!value.is_object()) return nullptr;
  const auto it = value.find(name);
  return it == value.end() ? nullptr : &*it;
}

// Dotted keys below `key`, as --set takes an object.
template <class Add>
void each_setting(const std::string& key, const json& value, const Add& add) {
  if (!value.is_object() || value.empty()) {
    add(key, value);
    return;
  }
  for (const auto& [name, inner] : value.items()) each_setting(key + "." + name, inner, add);
}

// What the suite set over its budget: the words of --set, the last of a key, and the cut of
// --max-hours.
std::map<std::string, std::string> set_over(const json& file) {
  std::map<std::string, std::string> over;
  if (const json* words = member(file, "sets"); words != nullptr && words->is_array()) {
    for (const json& word : *words) {
      const std::string text = word.is_string() ? word.get<std::string>() : "";
      const size_t equals = text.find('=');
      if (equals == std::string::npos) continue;
      const std::string said = text.substr(equals + 1);
      const json value = parsed_text(said);
      each_setting(text.substr(0, equals), value.is_null() ? json(said) : value,
                   [&](const std::string& key, const json& set) { over[key] = json_line(set); });
    }
  }
  const json* cut = member(file, "cut");
  const json* fraction = cut == nullptr ? nullptr : member(*cut, "fraction");
  if (fraction != nullptr) over[RunBudget::kCut] = json_line(*fraction);
  return over;
}

}  // namespace

std::optional<SuiteBudgets::Suite> SuiteBudgets::read(const std::filesystem::path& file) {
  const json value = parsed(file);
  const json *schema = member(value, "schema"), *budget = member(value, "budget"),
             *runs = member(value, "runs");
  if (schema == nullptr || *schema != kSuiteSchema || budget == nullptr || runs == nullptr ||
      !runs->is_array())
    return std::nullopt;
  const json *name = member(*budget, "name"), *tasks = member(*budget, "tasks");
  if (name == nullptr || !name->is_string() || tasks == nullptr || !tasks->is_object())
    return std::nullopt;
  Suite suite{
      .budget = {.name = *name, .tasks = json_line(*tasks), .set = {}, .over = set_over(value)},
      .runs = {}};
  for (const auto& [task, entry] : tasks->items()) {
    auto& of_task = suite.budget.set[task];
    const json* set = member(entry, "set");
    if (set == nullptr || !set->is_object()) continue;
    for (const auto& [key, setting] : set->items()) {
      each_setting(key, setting,
                   [&](const std::string& dotted, const json& held) { of_task[dotted] = held; });
    }
  }
  for (const json& run : *runs) {
    if (run.is_string()) suite.runs.insert(run);
  }
  return suite;
}

const std::optional<SuiteBudgets::Suite>& SuiteBudgets::suite(const std::filesystem::path& file) {
  const auto it = suites_.find(file);
  return it != suites_.end() ? it->second : suites_.emplace(file, read(file)).first->second;
}

RunBudget SuiteBudgets::of(const std::filesystem::path& run) {
  std::error_code code;
  // A link to the suite's folder, or in it one to a run's.
  for (const std::filesystem::path& whole :
       {std::filesystem::canonical(run, code),
        std::filesystem::absolute(run, code).lexically_normal()}) {
    std::filesystem::path out = whole;
    for (int level = 0; level < kLevelsBelowSuite; ++level) out = out.parent_path();
    const std::optional<Suite>& found = suite(out / kSuiteFile);
    if (found && found->runs.contains(whole.lexically_relative(out).generic_string()))
      return found->budget;
  }
  return {};
}

}  // namespace lra
