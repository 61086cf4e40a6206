// lra check: whether an attention keeps the contract.
#include <fmt/format.h>

#include "attention_variants/contract/contract.h"
#include "harness/commands/commands.h"
#include "harness/host/runtime.h"
#include "lra/model/reach.h"

namespace lra {
namespace {

struct CheckOptions {
  std::string attention, device = "cpu", protocol, task;
  std::vector<std::string> options;
  int64_t heads = 2, head_dim = 4, width = 0, threads = 0;
  bool as_json = false;
};

// Whether every token can change the answer of the model that the protocol makes of the attention.
contract::Verdict check_reach(const CheckOptions& given, const AttentionSpec& spec) {
  const Config config =
      make_config(load_protocol(given.protocol.empty() ? "lra-strict" : given.protocol), given.task,
                  spec, {}, 0, "float32");
  const int64_t length = std::min<int64_t>(config.settings.input.length, 640);
  contract::Verdict verdict{.holds = true};
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
  std::vector<contract::ContractClause> clauses = contract::contract_clauses();
  if (!given.task.empty())
    clauses.push_back({"reach", "in a model of the protocol every token can change the answer"});
  for (const contract::ContractClause& clause : clauses) {
    const contract::Verdict verdict = clause.name == "reach"
                                          ? check_reach(given, spec)
                                          : contract::check_clause(clause.name, subject);
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
  command->add_option("--task", options->task,
                      "Also build the protocol's model for this task, and try whether every token "
                      "can change its answer");
  command->add_option("--protocol", options->protocol, "With --task; default lra-strict");
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--threads", options->threads, "0 = all processors")->capture_default_str();
  command->add_flag("--json", options->as_json, "As JSON");
  command->callback([options] { run_check(*options); });
}

}  // namespace lra
