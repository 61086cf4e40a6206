// The command line of lra suite: its options, and what they say.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/suite/runner.h"
#include "harness/suite/slurm.h"
#include "harness/suite/suite.h"

namespace lra {

/// As the command line has them; "" and 0 are what is not given.
struct SuiteOptions {
  std::string tasks, attentions, seeds, protocol = "lra-strict", budget = "paper", data, out,
                                        device = "cpu", dtype = "float32", devices, only, child;
  std::vector<std::string> sets, sources, records;
  bool synthetic = false, resume = false, check = false;
  int64_t threads = 0, jobs = 0, tries = 3;
  double timeout = 0, max_hours = 0;
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

/// "0,4-7" -> 0, 4, 5, 6, 7, of `count` cells; throws UsageError on other words.
std::vector<size_t> parse_cells(const std::string& text, size_t count);

/// "0-4,7" as seeds; throws UsageError on other words, and where there is none.
std::vector<uint64_t> parse_seeds(const std::string& text);

/// How the runner works, by its options.
suite::RunnerOptions runner_of(const SuiteOptions& options);

/// A runner's threads, shared out over the cells that it runs at a time.
int64_t cell_threads(const suite::RunnerOptions& runner);

/// The suite of these options, or the one that the folder holds already.
suite::Suite planned_suite(const SuiteOptions& options, int64_t threads, const std::string& device);

/// The files that costs are predicted from. Throws UsageError where one is not there.
std::vector<std::filesystem::path> records_of(const SuiteOptions& options);

}  // namespace lra
