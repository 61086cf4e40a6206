// lra check: whether an attention keeps the contract.
#include <fmt/format.h>

#include "attention_variants/base/text.h"
#include "attention_variants/contract/contract.h"
#include "harness/commands/commands.h"
#include "harness/host/runtime.h"
#include "harness/overview/check_attention.h"

namespace lra {
namespace {

using contract::ContractClause;
using contract::Grade;
using contract::Verdict;

struct CheckOptions {
  CheckRequest request;
  std::string attention, explained;
  std::vector<std::string> options;
  int64_t threads = 0;
  bool as_json = false, strict = false;
};

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
  for (const ContractClause& clause : checked_clauses(/*causal=*/true)) {
    names.push_back(clause.name);
    if (clause.name != name) continue;
    fmt::print("{}: {}.\nwhere it fails: {}: {}{}.\n", name, clause.promise, clause.grade,
               meaning(clause.grade), clause.lesser.empty() ? "" : "; " + clause.lesser);
    if (clause.decisive) fmt::print("where it fails, the clauses after it are not tried.\n");
    fmt::print("what usually mends it: {}\n", clause.hint);
    return;
  }
  throw unknown_name("clause", name, names);
}

void print_verdict(const ContractClause& clause, const Verdict& verdict,
                   const contract::ContractSubject& subject) {
  if (verdict.holds) {
    fmt::print("{}: holds ({})\n", clause.name, printable(verdict.measured));
  } else {
    fmt::print("{}: FAILS, {} ({})\n  hint: {}\n", clause.name, verdict.grade,
               printable(verdict.measured), verdict.hint);
    const AttentionContext& c = subject.context;
    if (clause.decisive)
      fmt::print(
          "  tried with {} heads of {}, model width {}; for other sizes: --heads, --head-dim, "
          "--width\n",
          c.heads, c.head_dim, c.width);
  }
  std::fflush(stdout);  // line by line: slow attentions take a while
}

void run_check(const CheckOptions& options) {
  if (!options.explained.empty()) return explain(options.explained);
  if (options.attention.empty()) throw UsageError("--attention is required");
  CheckRequest request = options.request;
  request.attention = attention_given(options.attention, options.options);
  host::use_threads(options.threads);

  const Findings findings =
      check_attention(request, options.as_json ? SeenVerdict() : SeenVerdict(print_verdict));
  std::string name = request.attention.text();
  if (!findings.meant.empty())
    name += fmt::format(" ({} under {})", findings.meant, request.protocol);
  if (options.as_json) {
    print_json(findings.record());
  } else {
    fmt::print("{}: {} of {} clauses hold on up to {} positions (padding, other samples: {})",
               printable(name), findings.held, findings.clauses, contract::kMostPositions,
               contract::kFarPositions);
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
    if (options.strict && !findings.names(grade).empty())
      failed += (failed.empty() ? "" : ", ") + findings.names(grade);
  }
  if (!failed.empty()) throw Error(fmt::format("{} does not keep the contract: {}", name, failed));
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
      ->add_option("--heads", options->request.heads,
                   "H, for a file whose tensors are made for one; default: the protocol's")
      ->check(CLI::Range(1, 1 << 12));
  command->add_option("--head-dim", options->request.head_dim, "d; default: the protocol's")
      ->check(CLI::Range(1, 1 << 12));
  command
      ->add_option("--width", options->request.width,
                   "D, model width; default: the protocol's, or heads times head-dim if one of "
                   "these is given")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--causal", options->request.causal,
                    "Try its causal form, whose position i reads no later one");
  command->add_option("--task", options->request.task,
                      "Also build the protocol's model for this task, and try whether every token "
                      "can change its answer");
  command->add_option("--protocol", options->request.protocol,
                      "Whose sizes, options and model these are, with --task; default lra-strict");
  add_device_option(*command, options->request.device);
  add_threads_option(*command, options->threads);
  command->add_flag("--json", options->as_json, "As JSON");
  CLI::Option* explain = command->get_option("--explain");
  for (const char* other :
       {"--attention", "--option", "--strict", "--heads", "--head-dim", "--width", "--causal",
        "--task", "--protocol", "--json", "--device", "--threads"})
    explain->excludes(other);
  command->callback([options] { run_check(*options); });
}

}  // namespace lra
