// What the options of lra suite ask for: which suite, and how it runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/commands/suite_options.h"
#include "harness/suite/runner.h"
#include "harness/suite/suite.h"

namespace lra {

/// "0,4-7" -> 0, 4, 5, 6, 7, of `count` cells; throws UsageError on other words.
std::vector<size_t> parse_cells(const std::string& text, size_t count);

/// "0-4,7" as seeds; throws UsageError on other words, and where there is none. `from` is where
/// they are given.
std::vector<uint64_t> parse_seeds(const std::string& text, const std::string& from = "--seeds");

/// How the runner works, by its options.
suite::RunnerOptions runner_of(const SuiteOptions& options);

/// A runner's threads, shared out over the cells that it runs at a time.
int64_t cell_threads(const suite::RunnerOptions& runner);

/// Where the options name no device, the suite's is the runner's.
void use_device_of(const suite::Suite& suite, const SuiteOptions& options,
                   suite::RunnerOptions& runner);

/// The suite of these options, or the one that the folder holds already. Throws UsageError where
/// that is of another device than the options name.
suite::Suite planned_suite(const SuiteOptions& options, int64_t threads, const std::string& device);

/// The files that costs are predicted from. Throws UsageError where one is not there.
std::vector<std::filesystem::path> records_of(const SuiteOptions& options);

}  // namespace lra
