// lra check: whether an attention keeps the contract.
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/base/text.h"
#include "attention_variants/contract/contract.h"
#include "harness/commands/commands.h"
#include "harness/host/runtime.h"
#include "lra/model/reach.h"

namespace lra {
namespace {

using contract::ContractClause;
using contract::ContractSubject;
using contract::Grade;
using contract::Verdict;

struct CheckOptions {
  std::string attention, device = "cpu", protocol, task, explained;
  std::vector<std::string> options;
  int64_t heads = 0, head_dim = 0, width = 0, threads = 0;  // 0: the protocol's
  bool as_json = false, strict = false;
};

constexpr const char* kReach = "reach";

std::vector<ContractClause> all_clauses() {
  std::vector<ContractClause> clauses = contract::contract_clauses();
  clauses.push_back({.name = kReach,
                     .promise = "in a model of the protocol every token can change the answer",
                     .hint = "more layers, a wider window, or pooling over all tokens",
                     .grade = Grade::wrong,
                     .decisive = false});
  return clauses;
}

const char* meaning(Grade grade) {
  switch (grade) {
    case Grade::wrong:
      return "results are another function's than the one meant";
    case Grade::fragile:
      return "right on usual inputs; NaN, infinity or an error on rare ones";
    case Grade::style:
      return "the harness makes up for it";
  }
  return "";
}

void explain(const std::string& name) {
  std::vector<std::string> names;
  for (const ContractClause& clause : all_clauses()) {
    names.push_back(clause.name);
    if (clause.name != name) continue;
    fmt::print("{}: {}.\nwhere it fails: {}: {}.\n", name, clause.promise, clause.grade,
               meaning(clause.grade));
    if (clause.decisive) fmt::print("where it fails, the clauses after it are not tried.\n");
    fmt::print("what usually mends it: {}\n", clause.hint);
    return;
  }
  throw unknown_name("clause", name, names);
}

Config config_of(const CheckOptions& given, const AttentionSpec& spec) {
  return make_config(load_protocol(given.protocol.empty() ? "lra-strict" : given.protocol),
                     given.task.empty() ? tasks().front()->name : given.task, spec, {}, 0,
                     "float32");
}

// Whether every token can change the answer of the model that the protocol makes of the attention.
Verdict check_reach(const CheckOptions& given, const AttentionSpec& spec) {
  const Config config = config_of(given, spec);
  const int64_t length = std::min<int64_t>(config.settings.input.length, 640);
  Verdict verdict{.holds = true};
  const Task read = task(given.task, config.settings.input.brackets);
  for (const TokenReach& found :
       token_reach(read, config, length, {0, length / 4, length / 2, length - 1})) {
    verdict.holds = verdict.holds && found.change > 1e-6;
    verdict.measured +=
        fmt::format("{}token {} of {} changes a logit by {:.2g}",
                    verdict.measured.empty() ? "" : "; ", found.position, length, found.change);
  }
  return verdict;
}

ContractSubject subject_of(const CheckOptions& given, const AttentionSpec& spec) {
  ContractSubject subject = contract::contract_subject(spec);
  subject.device = host::parse_device(given.device);
  const auto model = config_of(given, spec).settings.model;
  AttentionContext& context = subject.context;
  context.heads = given.heads > 0 ? given.heads : model.heads;
  context.head_dim = given.head_dim > 0 ? given.head_dim : model.head_dim;
  const bool own = given.heads > 0 || given.head_dim > 0;
  const int64_t width = own ? context.heads * context.head_dim : model.width;
  context.width = given.width > 0 ? given.width : width;
  return subject;
}

// What has been found, clause by clause.
struct Findings {
  std::vector<std::string> broken[3];  // by grade
  int64_t held = 0, tried = 0, clauses = 0;
  json records = json::array();

  std::string names(Grade grade) const {
    return fmt::format("{}", fmt::join(broken[static_cast<size_t>(grade)], ", "));
  }
  bool holds() const { return held == clauses; }
};

void print_verdict(const ContractClause& clause, const Verdict& verdict,
                   const ContractSubject& subject) {
  if (verdict.holds) {
    fmt::print("{}: holds ({})\n", clause.name, printable(verdict.measured));
  } else {
    fmt::print("{}: FAILS, {} ({})\n  hint: {}\n", clause.name, verdict.grade,
               printable(verdict.measured), clause.hint);
    const AttentionContext& c = subject.context;
    if (clause.decisive)
      fmt::print(
          "  tried with {} heads of {}, model width {}; for other sizes: --heads, --head-dim, "
          "--width\n",
          c.heads, c.head_dim, c.width);
  }
  std::fflush(stdout);  // line by line: slow attentions take a while
}

Findings try_clauses(const CheckOptions& given, const AttentionSpec& spec,
                     const ContractSubject& subject) {
  Findings findings;
  bool stopped = false;
  for (const ContractClause& clause : all_clauses()) {
    const bool reach = clause.name == kReach;
    if (reach && given.task.empty()) continue;
    ++findings.clauses;
    if (stopped) continue;
    const Verdict verdict =
        reach ? check_reach(given, spec) : contract::check_clause(clause.name, subject);
    ++findings.tried;
    findings.held += verdict.holds ? 1 : 0;
    json record = {{"clause", clause.name},
                   {"promise", clause.promise},
                   {"holds", verdict.holds},
                   {"measured", verdict.measured}};
    if (!verdict.holds) {
      record["grade"] = verdict.grade;
      record["hint"] = clause.hint;
      findings.broken[static_cast<size_t>(verdict.grade)].push_back(clause.name);
    }
    findings.records.push_back(record);
    if (!given.as_json) print_verdict(clause, verdict, subject);
    stopped = clause.decisive && !verdict.holds;
  }
  return findings;
}

void run_check(const CheckOptions& given) {
  if (!given.explained.empty()) return explain(given.explained);
  if (given.attention.empty()) throw UsageError("--attention is required");
  const AttentionSpec spec = attention_given(given.attention, given.options);
  const ContractSubject subject = subject_of(given, spec);
  host::use_threads(given.threads);

  const Findings findings = try_clauses(given, spec, subject);
  if (given.as_json) {
    const AttentionContext& c = subject.context;
    json record = {{"attention", {{"name", spec.name}, {"options", subject.options}}},
                   {"sizes", {{"heads", c.heads}, {"head_dim", c.head_dim}, {"width", c.width}}},
                   {"holds", findings.holds()},
                   {"clauses", findings.records}};
    for (const Grade grade : all_values<Grade>())
      record[to_string(grade)] = findings.broken[static_cast<size_t>(grade)];
    print_json(record);
  } else {
    fmt::print("{}: {} of {} clauses hold", printable(spec.text()), findings.held,
               findings.clauses);
    for (const Grade grade : all_values<Grade>()) {
      if (!findings.names(grade).empty()) fmt::print("; {}: {}", grade, findings.names(grade));
    }
    if (findings.tried < findings.clauses)
      fmt::print("; {} not tried, as they build on the one that failed",
                 findings.clauses - findings.tried);
    fmt::print("\n");
  }
  std::string failed = findings.names(Grade::wrong);
  for (const Grade grade : {Grade::fragile, Grade::style}) {
    if (given.strict && !findings.names(grade).empty())
      failed += (failed.empty() ? "" : ", ") + findings.names(grade);
  }
  if (!failed.empty())
    throw Error(fmt::format("{} does not keep the contract: {}", spec.text(), failed));
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "check",
      "Try the contract on an attention: one verdict a line, with what was measured. A clause "
      "that fails is wrong, fragile or style; the exit status is 1 where one is wrong");
  auto options = std::make_shared<CheckOptions>();
  add_attention_options(*command, options->attention, options->options);
  command->get_option("--attention")->required(false);
  command->add_option("--explain", options->explained,
                      "Only say what a clause promises, what its failure means and what mends it");
  command->add_flag("--strict", options->strict, "Exit status 1 where any clause fails");
  command
      ->add_option("--heads", options->heads,
                   "H, for a file whose tensors are made for one; default: the protocol's")
      ->check(CLI::Range(1, 1 << 12));
  command->add_option("--head-dim", options->head_dim, "d; default: the protocol's")
      ->check(CLI::Range(1, 1 << 12));
  command
      ->add_option("--width", options->width,
                   "D, model width; default: the protocol's, or heads times head-dim if one of "
                   "these is given")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--task", options->task,
                      "Also build the protocol's model for this task, and try whether every token "
                      "can change its answer");
  command->add_option("--protocol", options->protocol,
                      "Whose sizes and model these are; default lra-strict");
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--threads", options->threads, "0 = all processors")->capture_default_str();
  command->add_flag("--json", options->as_json, "As JSON");
  command->callback([options] { run_check(*options); });
}

}  // namespace lra
