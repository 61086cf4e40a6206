// The command line of lra suite: its options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/suite/slurm.h"
#include "lra/config/protocol.h"

namespace lra {

/// As the command line has them; "" and 0 are what is not given.
struct SuiteOptions {
  std::string tasks, attentions, seeds, protocol = kDefaultProtocol, budget = "paper", data, out,
                                        device = "cpu", dtype = "float32", devices, only, child;
  std::vector<std::string> sets, sources, records;
  bool synthetic = false, resume = false;
  int64_t threads = 0, jobs = 0;
  double max_hours = 0;
  suite::CellPolicy cell;
  bool probe = false, as_json = false, watch = false, slurm = false, dry_run = false;
  suite::SlurmOptions cluster;
  CLI::App* command = nullptr;
};

/// Adds the options that say how a runner works: of --device, --jobs, --threads, --tries and so on.
void add_runner_options(CLI::App& command, SuiteOptions& options);

/// Adds the options of lra suite, and those that its subcommands have beside them.
void add_suite_options(CLI::App& command, SuiteOptions& options);
void add_plan_options(CLI::App& command, SuiteOptions& options);
void add_status_options(CLI::App& command, SuiteOptions& options);
void add_submit_options(CLI::App& command, SuiteOptions& options);

/// Whether "plan", "status" or "submit" takes this option of lra suite, "--only", too.
bool suite_takes(const std::string& subcommand, const std::string& option);

}  // namespace lra
