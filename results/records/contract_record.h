// What the contract's clauses said of a run's attention before it was trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"

namespace lra {

struct FailedClause {
  std::string clause;  // "padding invariance"
  std::string grade;   // "wrong", "fragile" or "style"
};

struct ContractRecord {
  int64_t passed = 0, of = 0;        // clauses
  std::vector<FailedClause> failed;  // those behind a decisive one are not tried, and not here

  /// "17 of 19"
  std::string count() const;
  /// "wrong: padding invariance; fragile: large logits"
  std::string failures() const;
};

json make_contract_record(const ContractRecord& contract);
ContractRecord parse_contract_record(const json& value);

}  // namespace lra
