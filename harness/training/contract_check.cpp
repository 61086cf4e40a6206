#include "harness/training/contract_check.h"

#include <fmt/format.h>

#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/training/checkpoint.h"
#include "harness/training/train.h"

namespace lra {
namespace {

using contract::ContractClause;
using contract::Grade;
using contract::Verdict;

// The verdicts on what fails, in the order of the clauses; those behind a decisive one are not
// tried.
std::vector<Verdict> failed_clauses(const contract::ContractSubject& subject,
                                    ContractRecord& record) {
  std::vector<Verdict> failed;
  bool stopped = false;
  for (const ContractClause& clause : contract::contract_clauses(subject.context.causal)) {
    ++record.of;
    if (stopped) continue;
    if (host::stop_requested())
      throw host::Interrupted("stopped while trying what the attention promises, before training");
    Verdict verdict = contract::check_clause(clause.name, subject);
    record.passed += verdict.holds ? 1 : 0;
    stopped = clause.decisive && !verdict.holds;
    if (!verdict.holds) failed.push_back(std::move(verdict));
  }
  return failed;
}

void warn_of(const AttentionSpec& attention, const std::vector<Verdict>& failed,
             const ContractRecord& record) {
  if (failed.empty()) return;
  std::string fragile;
  for (const Verdict& verdict : failed) {
    if (verdict.grade == Grade::wrong)
      host::say(fmt::format("WARNING: {} fails '{}', wrong: {}", attention.text(), verdict.clause,
                            verdict.measured));
    if (verdict.grade == Grade::fragile) fragile += (fragile.empty() ? "" : ", ") + verdict.clause;
  }
  if (!fragile.empty())
    host::say(fmt::format("WARNING: {} is fragile: {}", attention.text(), fragile));
  host::say(fmt::format("{} clauses of the contract hold; lra check --attention '{}' says more",
                        record.count(), attention.text()));
}

}  // namespace

contract::ContractSubject subject_in_model(const Config& config, torch::Device device) {
  contract::ContractSubject subject = contract::contract_subject(
      {.name = config.attention.name, .options = config.attention_options});
  const ModelOptions& model = config.settings.model;
  subject.device = device;
  subject.context.heads = model.heads;
  subject.context.head_dim = model.head_dim;
  subject.context.width = model.width;
  subject.context.causal = model.causal;
  subject.context.rotary_base = model.rotation();
  subject.context.kernels = config.settings.kernels;
  return subject;
}

std::optional<ContractRecord> contract_of(const TrainRequest& request, const RunFolder& folder,
                                          int64_t step) {
  if (step > 0) {
    const auto found = read_run_setting(folder.text()).contract;
    if (found || request.check != ContractCheck::all) return found;
  }
  const AttentionSpec& attention = request.config.attention;
  const bool tried = request.check == ContractCheck::own ? contract::is_user_defined(attention.name)
                                                         : request.check == ContractCheck::all;
  if (!tried) return std::nullopt;
  const KeptRandomStates kept(request.device);
  const contract::ContractSubject subject = subject_in_model(request.config, request.device);
  ContractRecord record;
  const std::vector<Verdict> failed = failed_clauses(subject, record);
  for (const Verdict& verdict : failed)
    record.failed.push_back({.clause = verdict.clause, .grade = to_string(verdict.grade)});
  warn_of(attention, failed, record);
  return record;
}

}  // namespace lra
