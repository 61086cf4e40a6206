// lra check: whether an attention keeps the contract.
#include <fmt/format.h>

#include "attention_variants/contract/contract.h"
#include "harness/commands/commands.h"
#include "harness/host/runtime.h"

namespace lra {
namespace {

struct CheckOptions {
  std::string attention, device = "cpu";
  std::vector<std::string> options;
  int64_t heads = 2, head_dim = 4, width = 0, threads = 0;
  bool as_json = false;
};

void run_check(const CheckOptions& given) {
  const AttentionSpec spec = attention_given(given.attention, given.options);
  contract::ContractSubject subject = contract::contract_subject(spec);
  subject.device = host::parse_device(given.device);
  subject.context.heads = given.heads;
  subject.context.head_dim = given.head_dim;
  subject.context.width = given.width > 0 ? given.width : given.heads * given.head_dim;
  host::use_threads(given.threads);

  json record = {{"attention", {{"name", spec.name}, {"options", subject.options}}},
                 {"holds", true},
                 {"clauses", json::array()}};
  std::string broken;
  int64_t held = 0;
  const std::vector<contract::ContractClause> clauses = contract::contract_clauses();
  for (const contract::ContractClause& clause : clauses) {
    const contract::Verdict verdict = contract::check_clause(clause.name, subject);
    held += verdict.holds ? 1 : 0;
    if (!verdict.holds) broken += (broken.empty() ? "" : ", ") + clause.name;
    record["clauses"].push_back({{"clause", clause.name},
                                 {"promise", clause.promise},
                                 {"holds", verdict.holds},
                                 {"measured", verdict.measured}});
    if (given.as_json) continue;
    fmt::print("{}: {} ({})\n", clause.name, verdict.holds ? "holds" : "FAILS", verdict.measured);
    std::fflush(stdout);  // line by line: slow attentions take a while
  }
  record["holds"] = broken.empty();
  if (given.as_json) {
    fmt::print("{}\n", record.dump(2));
  } else {
    fmt::print("{}: {} of {} clauses hold\n", spec.text(), held, clauses.size());
  }
  if (!broken.empty())
    throw Error(fmt::format("{} does not keep the contract: {}", spec.text(), broken));
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "check", "Try the contract on an attention: one verdict a line, with what was measured");
  auto options = std::make_shared<CheckOptions>();
  add_attention_options(*command, options->attention, options->options);
  command->add_option("--heads", options->heads, "H, for a file whose tensors are made for one")
      ->check(CLI::Range(1, 1 << 12))
      ->capture_default_str();
  command->add_option("--head-dim", options->head_dim, "d")
      ->check(CLI::Range(1, 1 << 12))
      ->capture_default_str();
  command->add_option("--width", options->width, "D, model width; default: heads times head-dim")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--threads", options->threads, "0 = all processors")->capture_default_str();
  command->add_flag("--json", options->as_json, "As JSON");
  command->callback([options] { run_check(*options); });
}

}  // namespace lra
