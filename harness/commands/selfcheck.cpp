// lra selfcheck: whether this program computes on this machine what it should.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/commands/commands.h"
#include "harness/selfcheck/child.h"
#include "harness/selfcheck/selfcheck.h"
#include "lra/config/once.h"
#include "results/selfcheck/table.h"

namespace lra {
namespace {

struct SelfcheckOptions {
  selfcheck::SelfcheckRequest request;
  std::string attentions, child;
};

void run_selfcheck_command(const SelfcheckOptions& options) {
  if (!options.child.empty()) return selfcheck::run_selfcheck_child(options.child);
  selfcheck::SelfcheckRequest request = options.request;
  check_jsonl_out(request.out.string());
  if (!options.attentions.empty()) request.attentions = parse_attentions(options.attentions);
  check_once("--attentions", request.attentions);
  check_once("--checks", request.checks);
  begin_work_in_files();
  const std::vector<Selfcheck> records = selfcheck::run_selfcheck(request);
  print_table(selfcheck_table(records));
  const auto failed = std::ranges::count_if(records, &Selfcheck::is_failure);
  if (failed > 0) {
    throw Error(fmt::format("{} of {} checks failed; each line of {} says what and by how much",
                            failed, records.size(), request.out.string()));
  }
}

}  // namespace

void add_selfcheck_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "selfcheck",
      "Try every attention on this machine's device: the contract, agreement with a CPU, training, "
      "memory and time. The exit status is 1 where a check fails");
  auto options = std::make_shared<SelfcheckOptions>();
  selfcheck::SelfcheckRequest& request = options->request;
  add_device_option(*command, request.device);
  command
      ->add_option("--minutes", request.minutes,
                   "After these what runs is ended, and what was not checked counts as failed")
      ->check(number_in(0.01, 1e6))
      ->capture_default_str();
  command
      ->add_option("--attentions", options->attentions,
                   "Comma list; default: all that run by their name")
      ->check(some_name());
  command
      ->add_option("--checks", request.checks,
                   fmt::format("Comma list; default: all: {}. speed takes roofline along",
                               fmt::join(selfcheck::check_names(), ", ")))
      ->delimiter(',');
  add_threads_option(*command, request.threads);
  command->add_option("--out", request.out,
                      "REQUIRED. JSONL file, a line a check; must not be there yet");
  command->add_option("--child", options->child)->group("");  // of our own processes
  command->callback([options] { run_selfcheck_command(*options); });
}

}  // namespace lra
