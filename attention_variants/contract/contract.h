// The contract that every attention keeps, as clauses that can be tried on any of them: what the
// tests run over every registered variant, and `lra check` over the user's own.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "attention_variants/base/enum_names.h"
#include "attention_variants/registry.h"
#include "attention_variants/torch.h"

namespace lra::contract {

/// The most positions that most clauses try.
inline constexpr int64_t kMostPositions = 64;
/// And those on padding, on other samples and on later positions: past the blocks, chunks and
/// landmarks that variants have by default. What is more in one piece is tried within it alone.
inline constexpr int64_t kFarPositions = 300;

/// What is tried: makes an attention for a context, and names the options that it should report.
struct ContractSubject {
  std::function<std::shared_ptr<Attention>(const AttentionContext&)> make;
  json options;
  // What it is made for; a clause may ask for a longer max_length.
  AttentionContext context = {
      .width = 8, .heads = 2, .head_dim = 4, .max_length = kMostPositions, .seed = 3};
  torch::Device device = torch::kCPU;
  // The same with a dropout of a half where it takes one; empty: not tried.
  std::function<std::shared_ptr<Attention>(AttentionContext)> make_dropping = {};
};

/// A registered attention; throws UsageError on an unknown name, key or value.
ContractSubject contract_subject(const AttentionSpec& spec);

/// Whether an attention is the user's own: made from a file, or built in by LRA_EXTRA_VARIANTS.
/// Throws UsageError on an unknown name.
bool is_user_defined(const std::string& attention);

/// What a broken clause means for results, the gravest first.
enum class Grade {
  wrong,    // they are another function's than the one meant
  fragile,  // right on usual inputs; NaN, infinity or an error on rare ones
  style,    // the harness makes up for it
};
constexpr auto names(Grade) { return std::array{"wrong", "fragile", "style"}; }

struct ContractClause {
  std::string name;         // "padding invariance"
  std::string promise;      // one sentence
  std::string hint;         // what usually mends it
  Grade grade;              // of a failure; some of its checks are graded lower
  bool decisive;            // without it the clauses that follow say nothing
  std::string lesser = {};  // which checks are graded lower, and how: "fragile where ..."
};

/// All of them, in the order in which they are tried; that of causality where it is asked for.
std::vector<ContractClause> contract_clauses(bool causal = false);

struct Verdict {
  std::string clause;
  bool holds = false;
  std::string measured;        // one line: the numbers nearest to their limits, or what failed
  Grade grade = Grade::wrong;  // of the gravest failure, where it does not hold
  std::string hint = {};       // what usually mends that; empty: the clause's
};

/// Tries one clause; throws UsageError on an unknown name. Whatever the attention throws is a
/// verdict, but for want of memory, which is thrown on. Sets the seed of torch's global generator.
Verdict check_clause(const std::string& clause, const ContractSubject& subject);

/// Tries them all.
std::vector<Verdict> check_contract(const ContractSubject& subject);

}  // namespace lra::contract
