#include "results/analysis/contract_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace lra {

std::vector<std::string> contract_notes(const RecipeGroup& group) {
  std::map<std::string, std::set<std::string>> notes;  // by row; the runs of one may differ
  for (const auto& [result, row] : row_names(group)) {
    if (!result->contract || result->contract->passed == result->contract->of) continue;
    const ContractRecord& contract = *result->contract;
    const bool wrong = std::ranges::any_of(
        contract.failed, [](const FailedClause& failed) { return failed.grade == "wrong"; });
    notes[row].insert(fmt::format("{}{}: {} clauses of the contract hold; {}",
                                  wrong ? "WARNING: " : "", row, contract.count(),
                                  contract.failures()));
  }
  std::vector<std::string> all;
  for (const auto& [row, texts] : notes) all.insert(all.end(), texts.begin(), texts.end());
  return all;
}

}  // namespace lra
