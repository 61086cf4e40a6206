#include "harness/commands/suite_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "harness/commands/commands.h"
#include "harness/host/runtime.h"
#include "harness/host/self_command.h"
#include "harness/suite/changed_files.h"
#include "harness/suite/suite_data.h"
#include "harness/suite/suite_folder.h"
#include "lra/data/task.h"
#include "results/records/file_names.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostSeeds = 10000, kMostCells = 1 << 24;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
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

// The records that lie where this program was built: in results/measured of a folder above it.
std::vector<fs::path> measured_here() {
  for (fs::path above = fs::canonical(host::self_command().file); above.has_relative_path();) {
    above = above.parent_path();
    const fs::path records = above / "results" / "measured";
    std::error_code none;
    if (fs::is_directory(records, none)) return {records};
  }
  return {};
}

// The options that say what a suite is: none of them, and the folder says it. --data alone says
// where its data have moved to.
bool defines(const SuiteOptions& options) {
  for (const char* name : {"--tasks", "--attentions", "--seeds", "--protocol", "--budget", "--set",
                           "--source", "--synthetic", "--dtype", "--max-hours"}) {
    if (options.command->count(name) > 0) return true;
  }
  return false;
}

suite::SuiteRequest request_of(const SuiteOptions& options) {
  suite::SuiteRequest request;
  request.budget = load_budget(options.budget);
  request.protocol = options.protocol;
  const Protocol protocol = load_protocol(options.protocol);
  request.out = options.out.empty() ? "runs/suite-" + request.budget.name : options.out;
  request.data = {.given = options.data,
                  .folder = suite::suite_data_folder(request.out),
                  .sources = parse_sources(options.sources),
                  .synthetic = options.synthetic,
                  .threads = options.threads};
  if (options.tasks.empty()) {
    for (const std::string& name : request.budget.default_tasks()) {
      if (protocol.tasks.contains(name)) request.tasks.push_back(name);
    }
    if (request.budget.skip_missing) {
      request.tasks = suite::tasks_with_data(request.tasks, request.budget, request.data);
      if (request.tasks.empty())
        throw UsageError("there are no data of any task of budget " + request.budget.name);
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
  request.seeds = options.command->count("--seeds") == 0
                      ? parse_seeds(request.budget.seeds, request.budget.place() + ": seeds")
                      : parse_seeds(options.seeds);
  request.sets = options.sets;
  request.dtype = options.dtype;
  request.max_hours = options.max_hours;
  return request;
}

std::vector<std::string> devices_of(const SuiteOptions& options) {
  if (options.devices.empty()) return {options.device};
  if (options.command->count("--device") > 0)
    throw UsageError("--device is for one, --devices for several: give one of them");
  const std::vector<std::string> devices = split(options.devices);
  for (const std::string& device : devices) {
    if (!device.starts_with("cuda:") || std::ranges::count(devices, device) > 1) {
      throw UsageError(
          "--devices should be a comma list of GPUs, each once, as cuda:0,cuda:1, not '" +
          options.devices + "'; on CPUs --jobs says how many cells run at a time");
    }
  }
  return devices;
}

bool gives_device(const SuiteOptions& options) {
  return options.command->count("--device") > 0 || !options.devices.empty() ||
         !options.cluster.gpus.empty();
}

}  // namespace

std::vector<size_t> parse_cells(const std::string& text, size_t count) {
  const auto cells = parse_numbers(text, kMostCells);
  if (!cells || std::ranges::any_of(*cells, [&](uint64_t cell) { return cell >= count; })) {
    throw UsageError(
        fmt::format("--only should be a comma list of cells from 0 to {}, as 0,4-7, not '{}'",
                    count - 1, text));
  }
  if (cells->empty()) throw UsageError("--only names no cell; leave it out to run all");
  return {cells->begin(), cells->end()};
}

std::vector<uint64_t> parse_seeds(const std::string& text, const std::string& from) {
  const auto seeds = parse_numbers(text, kMostSeeds);
  if (!seeds) {
    throw UsageError(from + " should be a comma list of integers, as 0,1,2 or 0-4,7, not '" + text +
                     "'");
  }
  if (seeds->empty()) throw UsageError(from + " should name at least one seed");
  return *seeds;
}

suite::RunnerOptions runner_of(const SuiteOptions& options) {
  suite::RunnerOptions runner{.devices = devices_of(options), .cell = options.cell};
  const auto devices = static_cast<int64_t>(runner.devices.size());
  const bool gpus = runner.devices.front() != "cpu";
  if (options.jobs % devices != 0) {
    throw UsageError(fmt::format(
        "--jobs {}: each of the {} GPUs has as many cells at a time, so it should be a multiple of "
        "{}",
        options.jobs, devices, devices));
  }
  runner.jobs = options.jobs > 0 ? options.jobs : gpus ? devices : 1;
  runner.threads = host::set_threads(options.threads);
  runner.threads_given = options.threads > 0;
  return runner;
}

void use_device_of(const suite::Suite& suite, const SuiteOptions& options,
                   suite::RunnerOptions& runner) {
  if (!gives_device(options)) runner.devices = {suite.request.device};
}

int64_t cell_threads(const suite::RunnerOptions& runner) {
  return std::max<int64_t>(runner.threads / runner.jobs, 1);
}

suite::Suite planned_suite(const SuiteOptions& options, int64_t threads,
                           const std::string& device) {
  if (!options.out.empty() && !defines(options) &&
      std::filesystem::exists(std::filesystem::path(options.out) / kSuiteFile)) {
    suite::Suite held = suite::load_suite(options.out);
    if (!options.data.empty()) held.request.data.given = options.data;
    if (gives_device(options) && host::device_kind(device) != held.request.device) {
      throw UsageError(
          fmt::format("the suite in {} is of device {}, not {}; choose it, or another "
                      "--out folder",
                      options.out, held.request.device, device));
    }
    return held;
  }
  if (options.resume && !options.out.empty() && !defines(options) &&
      std::filesystem::exists(std::filesystem::path(options.out) / kRunsFolder)) {
    throw Error(
        fmt::format("{} holds runs, but no {}, which says what suite they are of: give its "
                    "options again (--budget, --tasks, --attentions, ...)",
                    options.out, kSuiteFile));
  }
  suite::SuiteRequest request = request_of(options);
  request.threads = threads;
  request.device = host::device_kind(device);
  const bool joins = std::filesystem::exists(request.out / kSuiteFile) &&
                     (options.resume || options.command->got_subcommand("plan"));
  if (joins) request.changed = suite::changed_files(request.out);
  const suite::Suite planned = suite::plan_suite(request);
  return joins ? suite::join_suite(planned) : planned;
}

std::vector<std::filesystem::path> records_of(const SuiteOptions& options) {
  if (options.records.empty()) return measured_here();
  for (const std::string& path : options.records) {
    if (!std::filesystem::exists(path))
      throw UsageError("--records " + path + ": there is no such file or folder");
  }
  return {options.records.begin(), options.records.end()};
}

}  // namespace lra
