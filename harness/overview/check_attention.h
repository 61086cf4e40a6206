// The contract tried on an attention, and over a model of a protocol.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attention_variants/contract/contract.h"

namespace lra {

struct CheckRequest {
  AttentionSpec attention = {};
  std::string device = "cpu";
  std::string protocol = "";                   // whose sizes and model these are; "": lra-strict
  std::string task = "";                       // of the model whose reach is tried too; "": none is
  int64_t heads = 0, head_dim = 0, width = 0;  // 0: the protocol's
  bool causal = false;                         // true: whatever the protocol says
};

/// What has been found, clause by clause.
struct Findings {
  contract::ContractSubject subject;
  std::string attention;               // its name
  std::string meant;                   // "" where it is the one that was named; else what the
                                       // protocol means by that, "local_tay2020"
  std::vector<std::string> broken[3];  // by grade
  int64_t held = 0, tried = 0, clauses = 0;
  json tries = json::array();

  /// The broken clauses of a grade, "a, b".
  std::string names(contract::Grade grade) const;
  bool holds() const { return held == clauses; }
  /// What `lra check --json` prints.
  json record() const;
};

/// The contract's clauses, of a causal attention or not, and that of the model.
std::vector<contract::ContractClause> checked_clauses(bool causal);

using SeenVerdict = std::function<void(const contract::ContractClause&, const contract::Verdict&,
                                       const contract::ContractSubject&)>;

/// Tries the clauses in their order, up to a decisive one that fails; `seen`, if any, gets each
/// verdict at once. Throws UsageError on names and options that there are not. Generators are left
/// as they were.
Findings check_attention(const CheckRequest& request, const SeenVerdict& seen = {});

}  // namespace lra
