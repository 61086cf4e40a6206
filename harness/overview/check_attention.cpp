#include "harness/overview/check_attention.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "harness/host/runtime.h"
#include "harness/training/checkpoint.h"
#include "harness/training/contract_check.h"
#include "lra/config/protocol.h"
#include "lra/model/reach.h"

namespace lra {
namespace {

using contract::ContractClause;
using contract::ContractSubject;
using contract::Grade;
using contract::Verdict;

constexpr const char* kReach = "reach";
constexpr const char* kCheckedProtocol = "lra-strict";  // its models are of one size

Config config_of(const CheckRequest& given) {
  return make_config(load_protocol(given.protocol.empty() ? kCheckedProtocol : given.protocol),
                     given.task.empty() ? tasks().front()->name : given.task, given.attention, {},
                     0, "float32");
}

// Whether every token can change the answer of the model that the protocol makes of the attention.
Verdict check_reach(const CheckRequest& given, const Config& config) {
  const int64_t length = std::min<int64_t>(config.settings.input.length, 640);
  Verdict verdict{.holds = true};
  const Task read = task(given.task, config.settings.input.reading());
  for (const TokenReach& found :
       token_reach(read, config, length, {0, length / 4, length / 2, length - 1})) {
    verdict.holds = verdict.holds && found.change > 1e-6;
    verdict.measured +=
        fmt::format("{}token {} of {} changes a logit by {:.2g}",
                    verdict.measured.empty() ? "" : "; ", found.position, length, found.change);
  }
  return verdict;
}

// Throws where the attention refuses what it is to be made for, a causal form say, which breaks no
// clause. What else its making throws is for the clauses.
void check_can_be_made(const ContractSubject& subject) {
  try {
    subject.make(subject.context);
  } catch (const UsageError&) {
    throw;
  } catch (const Unsupported&) {
    throw;
  } catch (const std::exception&) {
  }
}

ContractSubject subject_of(const CheckRequest& given, const Config& config) {
  ContractSubject subject = subject_in_model(config, host::parse_device(given.device));
  AttentionContext& context = subject.context;
  if (given.heads > 0) context.heads = given.heads;
  if (given.head_dim > 0) context.head_dim = given.head_dim;
  if (given.heads > 0 || given.head_dim > 0) context.width = context.heads * context.head_dim;
  if (given.width > 0) context.width = given.width;
  context.causal = context.causal || given.causal;
  check_causal_options(given.attention, context.causal);
  return subject;
}

}  // namespace

std::vector<ContractClause> checked_clauses(bool causal) {
  std::vector<ContractClause> clauses = contract::contract_clauses(causal);
  clauses.push_back({.name = kReach,
                     .promise = "in a model of the protocol every token can change the answer",
                     .hint = "more layers, a wider window, or pooling over all tokens",
                     .grade = Grade::wrong,
                     .decisive = false});
  return clauses;
}

std::string Findings::names(Grade grade) const {
  return fmt::format("{}", fmt::join(broken[static_cast<size_t>(grade)], ", "));
}

json Findings::record() const {
  const AttentionContext& c = subject.context;
  json record = {{"attention", {{"name", attention}, {"options", subject.options}}},
                 {"sizes", {{"heads", c.heads}, {"head_dim", c.head_dim}, {"width", c.width}}},
                 {"holds", holds()},
                 {"clauses", tries}};
  for (const Grade grade : all_values<Grade>())
    record[to_string(grade)] = broken[static_cast<size_t>(grade)];
  return record;
}

Findings check_attention(const CheckRequest& given, const SeenVerdict& seen) {
  if (!given.protocol.empty() && given.protocol != kCheckedProtocol && given.task.empty()) {
    load_protocol(given.protocol);  // that there is one
    throw UsageError("a protocol's sizes and options differ by task: give its task too (--task)");
  }
  const Config config = config_of(given);
  Findings findings;
  findings.subject = subject_of(given, config);
  findings.attention = config.attention.name;
  if (config.attention.name != given.attention.name) findings.meant = config.attention.text();
  const KeptRandomStates kept(findings.subject.device);
  check_can_be_made(findings.subject);
  bool stopped = false;
  for (const ContractClause& clause : checked_clauses(findings.subject.context.causal)) {
    const bool reach = clause.name == kReach;
    if (reach && given.task.empty()) continue;
    ++findings.clauses;
    if (stopped) continue;
    Verdict verdict =
        reach ? check_reach(given, config) : contract::check_clause(clause.name, findings.subject);
    if (verdict.hint.empty()) verdict.hint = clause.hint;
    ++findings.tried;
    findings.held += verdict.holds ? 1 : 0;
    json record = {{"clause", clause.name},
                   {"promise", clause.promise},
                   {"holds", verdict.holds},
                   {"measured", verdict.measured}};
    if (!verdict.holds) {
      record["grade"] = verdict.grade;
      record["hint"] = verdict.hint;
      findings.broken[static_cast<size_t>(verdict.grade)].push_back(clause.name);
    }
    findings.tries.push_back(record);
    if (seen) seen(clause, verdict, findings.subject);
    stopped = clause.decisive && !verdict.holds;
  }
  return findings;
}

}  // namespace lra
