// lra suite: the whole comparison in one command.
#include <fmt/format.h>

#include <sstream>

#include "harness/commands.h"
#include "harness/suite.h"
#include "lra/task.h"

namespace lra {
namespace {

struct SuiteOptions {
  std::string tasks, attentions, seeds, protocol = "lra-strict", budget = "paper", data, out,
                                        device = "cpu", dtype = "float32";
  std::vector<std::string> sets, sources;
  bool synthetic = false;
  int64_t threads = 0;
  bool resume = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<uint64_t> parse_seeds(const std::string& text) {
  std::vector<uint64_t> seeds;
  for (const std::string& part : split(text)) {
    const json value = value_from_text(part);
    if (!value.is_number_unsigned())
      throw UsageError("--seeds should be a comma list of integers, as 0,1,2, not '" + text + "'");
    seeds.push_back(value);
  }
  if (seeds.empty()) throw UsageError("--seeds should name at least one seed");
  return seeds;
}

std::map<std::string, std::filesystem::path> parse_sources(const std::vector<std::string>& texts) {
  std::map<std::string, std::filesystem::path> sources;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw UsageError(
          "--source should be TASK=FOLDER_OR_ARCHIVE, as text=aclImdb_v1.tar.gz, not '" + text +
          "'");
    }
    const std::string name = task(text.substr(0, equals)).name;
    if (!sources.emplace(name, text.substr(equals + 1)).second)
      throw UsageError("--source names " + name + " twice; each task has one source");
  }
  return sources;
}

void run(const SuiteOptions& options) {
  SuiteRequest request;
  request.budget = load_budget(options.budget);
  request.protocol = options.protocol;
  const Protocol protocol = load_protocol(options.protocol);
  if (options.tasks.empty()) {
    for (const std::string& name : request.budget.default_tasks()) {
      if (protocol.tasks.contains(name)) request.tasks.push_back(name);
    }
  } else {
    for (const std::string& name : split(options.tasks)) request.tasks.push_back(task(name).name);
  }
  if (request.tasks.empty())
    throw UsageError("no task is both in budget " + request.budget.name + " and protocol " +
                     protocol.name);
  const std::string& attentions =
      options.attentions.empty() ? request.budget.attentions : options.attentions;
  if (attentions.empty()) {
    for (const AttentionEntry* entry : attention_entries())
      request.attentions.push_back({.name = entry->info.name});
  } else {
    request.attentions = parse_attentions(attentions);
  }
  request.seeds = parse_seeds(options.seeds.empty() ? request.budget.seeds : options.seeds);
  request.sets = options.sets;
  request.data = {.given = options.data,
                  .sources = parse_sources(options.sources),
                  .synthetic = options.synthetic,
                  .threads = options.threads};
  request.out = options.out.empty() ? "runs/suite-" + request.budget.name : options.out;
  request.device = options.device;
  request.dtype = options.dtype;
  request.threads = options.threads;
  request.resume = options.resume ? Resume::yes : Resume::no;
  const int64_t failed = run_suite(request);
  if (failed > 0)
    throw Error(fmt::format(
        "{} part(s) of the suite did not end as ok; see the table and their result.json", failed));
}

}  // namespace

void add_suite_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("suite", "Train and measure attentions on tasks, and print the tables");
  auto options = std::make_shared<SuiteOptions>();
  command->add_option("--tasks", options->tasks, "Comma list; default: the budget's");
  command->add_option("--attentions", options->attentions,
                      "Comma list; default: the budget's, or all");
  command->add_option("--seeds", options->seeds, "Comma list; default: the budget's");
  command->add_option("--protocol", options->protocol, "Protocol, or a path to one")
      ->capture_default_str();
  command
      ->add_option(
          "--budget", options->budget,
          "smoke (minutes), quick (about an hour), paper (all of the protocol), or a path to one")
      ->capture_default_str();
  command
      ->add_option("--set", options->sets,
                   "Override, as training.steps=1000 (repeatable); the records say so")
      ->allow_extra_args(false);
  command->add_option("--data", options->data,
                      "Folder of lra data prepare --out; default: made in OUT/data");
  command
      ->add_option("--source", options->sources,
                   "TASK=FOLDER_OR_ARCHIVE of public data, prepared into OUT/data, for tasks that "
                   "cannot be generated (repeatable), as text=aclImdb_v1.tar.gz")
      ->allow_extra_args(false);
  command->add_flag("--synthetic", options->synthetic,
                    "A stand-in for data that cannot be had (retrieval, of the source of text); "
                    "every record and table says so");
  command->add_option("--out", options->out, "Folder for everything; default: runs/suite-<budget>");
  command->add_flag("--resume", options->resume,
                    "Go on with the suite in that folder, or start it");
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--dtype", options->dtype, "float32, or bfloat16 (autocast)")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "0 = all processors")->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace lra
