#include "results/store/suite_budget.h"

#include <fstream>
#include <sstream>
#include <system_error>

#include "attention_variants/base/json_fault.h"
#include "results/records/json_line.h"
#include "results/records/run_folder.h"

namespace lra {
namespace {

constexpr int kSuiteDepth = 64;
constexpr std::uintmax_t kSuiteBytes = 64 << 20;

json parsed(const std::filesystem::path& file) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code) ||
      std::filesystem::file_size(file, code) > kSuiteBytes || code)
    return {};
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  if (json_fault(text.str(), kSuiteDepth).kind != JsonFault::Kind::none) return {};
  return json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
}

const json* member(const json& value, const char* name) {
  if (!value.is_object()) return nullptr;
  const auto it = value.find(name);
  return it == value.end() ? nullptr : &*it;
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
  Suite suite{.budget = {.name = *name, .tasks = json_line(*tasks), .keys = {}}, .runs = {}};
  for (const auto& [task, entry] : tasks->items()) {
    const json* set = member(entry, "set");
    if (set == nullptr || !set->is_object()) continue;
    for (const auto& [key, setting] : set->items()) suite.budget.keys.insert(key);
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
  const std::filesystem::path whole = std::filesystem::canonical(run, code);
  if (code) return {};
  std::filesystem::path out = whole;
  for (int level = 0; level < kLevelsBelowSuite; ++level) out = out.parent_path();
  const std::optional<Suite>& found = suite(out / kSuiteFile);
  if (!found || !found->runs.contains(whole.lexically_relative(out).generic_string())) return {};
  return found->budget;
}

}  // namespace lra
