#include "harness/commands/suite_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/commands/commands.h"

namespace lra {
namespace {

// The options of lra suite that a subcommand does not take too; status takes --out alone.
const std::map<std::string, std::vector<std::string>> kNotTaken = {
    {"plan", {"--only"}}, {"submit", {"--jobs", "--devices"}}};

constexpr const char* kMore = "It takes the options of lra suite too, but {}";

// What the cells are.
void add_suite_cell_options(CLI::App& command, SuiteOptions& options) {
  command.add_option("--tasks", options.tasks, "Comma list; default: the budget's")
      ->check(some_name());
  command
      .add_option("--attentions", options.attentions, "Comma list; default: the budget's, or all")
      ->check(some_name());
  command.add_option("--seeds", options.seeds,
                     "Comma list with ranges, as 0-4,7; default: the budget's");
  command.add_option("--protocol", options.protocol, "Protocol, or a path to one")
      ->capture_default_str();
  command
      .add_option("--budget", options.budget,
                  "smoke (minutes), quick (some 20 minutes on 2 cores), paper (all of the "
                  "protocol), or a path to one")
      ->capture_default_str();
  command
      .add_option(
          "--set", options.sets,
          "Override, as training.batch=16 (repeatable, the last of a key counts); the records "
          "say so")
      ->allow_extra_args(false);
  command
      .add_option("--data", options.data,
                  "Folder of lra data prepare --out; default: made in OUT/data")
      ->check(some_name());
  command
      .add_option("--source", options.sources,
                  "TASK=FOLDER_OR_ARCHIVE of public data, prepared into OUT/data (repeatable), as "
                  "text=aclImdb_v1.tar.gz")
      ->allow_extra_args(false);
  command.add_flag("--synthetic", options.synthetic,
                   "A stand-in for data that cannot be had (retrieval, of the source of text); "
                   "every record and table says so");
}

// Where the suite lies, and how much of it there is to be.
void add_folder_options(CLI::App& command, SuiteOptions& options) {
  command
      .add_option("--out", options.out,
                  "Folder for everything; default: runs/suite-<budget>. Any number of runners, "
                  "on any number of hosts, may share it")
      ->check(some_name());
  command.add_flag("--resume", options.resume,
                   "Go on with the suite in that folder, join those who are at it, or start it; "
                   "with --out alone the folder says what the suite is");
  command
      .add_option("--max-hours", options.max_hours,
                  "Cut the steps of all cells by the same part, schedules with them, so that "
                  "training is predicted to end in so many hours; the records say so")
      ->check(number_in(1e-6, 1e6));
  command
      .add_option("--records", options.records,
                  "Folder or file of runs and profiles that plan and --max-hours predict from, "
                  "beside OUT (repeatable); default: results/measured of this program's folder")
      ->allow_extra_args(false);
  command.add_option("--only", options.only,
                     "These cells alone, by their numbers in lra suite plan, as 0,4-7; without "
                     "profile and report");
}

}  // namespace

void add_runner_options(CLI::App& command, SuiteOptions& options) {
  command
      .add_option("--jobs", options.jobs,
                  "Cells at a time; --threads and a CPU's memory are shared out over them. On GPUs "
                  "a multiple of their number; default: 1 a GPU or CPU")
      ->check(CLI::Range(1, 1 << 12));
  command
      .add_option("--devices", options.devices,
                  "GPUs to use, as cuda:0,cuda:1; one cell on each at a time, or more by --jobs")
      ->check(some_name());
  command
      .add_option("--timeout", options.cell.timeout,
                  "Seconds for a cell over all its tries; then it is timeout. 0 = none")
      ->check(number_in(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--tries", options.cell.tries,
                  "A cell whose process dies so many times in a row without a new checkpoint is "
                  "crash")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_contract_options(command, options.cell.check);
  add_device_option(command, options.device);
  command.add_option("--dtype", options.dtype, "float32, or bfloat16 (autocast)")
      ->capture_default_str();
  command
      .add_option("--threads", options.threads,
                  "Of this runner, shared out over --jobs; 0 = all processors. A cell's are "
                  "part of its results: a folder keeps those it began with")
      ->capture_default_str();
}

void add_suite_options(CLI::App& command, SuiteOptions& options) {
  options.command = &command;
  add_suite_cell_options(command, options);
  add_folder_options(command, options);
  add_runner_options(command, options);
  // Of our own processes.
  command.add_subcommand("child", "")->group("")->add_option("JOB", options.child)->required();
}

void add_plan_options(CLI::App& command, SuiteOptions& options) {
  command.footer(fmt::format(kMore, fmt::join(kNotTaken.at("plan"), " and ")));
  command.add_flag(
      "--probe", options.probe,
      "Measure some training steps of what nothing is known of (seconds a recipe), into "
      "OUT/probe.jsonl");
  command.add_flag("--json", options.as_json, "As JSON");
}

void add_status_options(CLI::App& command, SuiteOptions& options) {
  command.footer("It takes --out of lra suite, the folder of the suite");
  CLI::Option* watch = command.add_flag(
      "--watch", options.watch,
      "Live until all cells have ended; where stdout is no terminal, a line every 30 s");
  command.add_flag("--json", options.as_json, "As JSON")->excludes(watch);
}

void add_submit_options(CLI::App& command, SuiteOptions& options) {
  suite::SlurmOptions& cluster = options.cluster;
  command.footer(fmt::format(kMore, fmt::join(kNotTaken.at("submit"), " and ")));
  command.add_flag("--slurm", options.slurm, "To Slurm, as job arrays");
  command.add_flag("--dry-run", options.dry_run, "Print the scripts; write and submit nothing");
  command.add_option("--partition", cluster.partition, "As sbatch takes it");
  command.add_option("--account", cluster.account, "As sbatch takes it");
  command.add_option("--time", cluster.time,
                     "Time limit of a job, as sbatch takes it; a cell that needs more goes on in "
                     "another");
  command.add_option("--mem", cluster.mem, "Memory of a job, as sbatch takes it, as 8G");
  command.add_option("--gpus", cluster.gpus, "GPUs of a job, as sbatch takes it; cells run on one");
  command
      .add_option("--cpus", cluster.cpus,
                  "Processors of a job and threads of its cell; default: --threads, or 1")
      ->check(CLI::Range(1, 1 << 12));
  command.add_option("--array-limit", cluster.array_limit, "Jobs of an array at a time; 0 = all")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--warning", cluster.warning,
                  "Seconds before its time limit at which a job writes a checkpoint and goes back "
                  "to the queue")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
}

bool suite_takes(const std::string& subcommand, const std::string& option) {
  if (subcommand == "status") return option == "--out";
  return std::ranges::count(kNotTaken.at(subcommand), option) == 0;
}

}  // namespace lra
