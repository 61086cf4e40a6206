// lra suite: the whole comparison in one command; and its plan, its status and its way to a
// cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/suite/cell.h"
#include "harness/suite/plan.h"
#include "harness/suite/runner.h"
#include "harness/suite/slurm.h"
#include "harness/suite/status.h"
#include "lra/data/task.h"

namespace lra {
namespace {

struct SuiteOptions {
  std::string tasks, attentions, seeds, protocol = "lra-strict", budget = "paper", data, out,
                                        device = "cpu", dtype = "float32", devices, only;
  std::vector<std::string> sets, sources, records;
  bool synthetic = false, resume = false;
  int64_t threads = 0, jobs = 0, tries = 3;
  double timeout = 0, max_hours = 0;
  bool probe = false, as_json = false, watch = false, slurm = false, dry_run = false;
  SlurmOptions cluster;
  CLI::App* command = nullptr;
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

// "0,4-7" -> 0, 4, 5, 6, 7
std::vector<size_t> parse_cells(const std::string& text, size_t count) {
  std::vector<size_t> cells;
  for (const std::string& part : split(text)) {
    const size_t dash = part.find('-');
    const json first = value_from_text(part.substr(0, dash)),
               last = dash == std::string::npos ? first : value_from_text(part.substr(dash + 1));
    if (!first.is_number_unsigned() || !last.is_number_unsigned() || last >= count ||
        first > last) {
      throw UsageError(
          fmt::format("--only should be a comma list of cells from 0 to {}, as 0,4-7, not '{}'",
                      count - 1, text));
    }
    for (size_t i = first; i <= last.get<size_t>(); ++i) cells.push_back(i);
  }
  if (cells.empty()) throw UsageError("--only names no cell; leave it out to run all");
  return cells;
}

// The options that say what a suite is: none of them, and the folder says it.
bool defines(const SuiteOptions& options) {
  for (const char* name : {"--tasks", "--attentions", "--seeds", "--protocol", "--budget", "--set",
                           "--data", "--source", "--synthetic", "--dtype", "--max-hours"}) {
    if (options.command->count(name) > 0) return true;
  }
  return false;
}

SuiteRequest request_of(const SuiteOptions& options) {
  SuiteRequest request;
  request.budget = load_budget(options.budget);
  request.protocol = options.protocol;
  const Protocol protocol = load_protocol(options.protocol);
  request.out = options.out.empty() ? "runs/suite-" + request.budget.name : options.out;
  request.data = {.given = options.data,
                  .folder = suite_data_folder(request.out),
                  .sources = parse_sources(options.sources),
                  .synthetic = options.synthetic,
                  .threads = options.threads};
  if (options.tasks.empty()) {
    for (const std::string& name : request.budget.default_tasks()) {
      if (protocol.tasks.contains(name)) request.tasks.push_back(name);
    }
    if (request.budget.skip_missing) {
      request.tasks = tasks_with_data(request.tasks, request.budget, request.data);
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
  request.seeds =
      parse_seeds(options.command->count("--seeds") == 0 ? request.budget.seeds : options.seeds);
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

RunnerOptions runner_of(const SuiteOptions& options) {
  RunnerOptions runner{
      .devices = devices_of(options), .tries = options.tries, .timeout = options.timeout};
  const auto devices = static_cast<int64_t>(runner.devices.size());
  const bool gpus = runner.devices.front() != "cpu";
  if (gpus && options.jobs > 0 && options.jobs != devices) {
    throw UsageError(fmt::format(
        "--jobs {}: one cell runs on each GPU at a time, so {} here; leave it out, or name other "
        "--devices",
        options.jobs, devices));
  }
  runner.jobs = gpus ? devices : std::max<int64_t>(options.jobs, 1);
  runner.threads = use_threads(options.threads);
  return runner;
}

// A runner's threads, shared out over the cells that it runs at a time.
int64_t cell_threads(const RunnerOptions& runner) {
  return std::max<int64_t>(runner.threads / runner.jobs, 1);
}

// The suite as its options say it, or as the folder that it goes on in does.
Suite planned_suite(const SuiteOptions& options, int64_t threads, const std::string& device) {
  if (!options.out.empty() && !defines(options) &&
      std::filesystem::exists(std::filesystem::path(options.out) / kSuiteFile)) {
    return load_suite(options.out);
  }
  SuiteRequest request = request_of(options);
  request.threads = threads;
  request.device = device.substr(0, device.find(':'));
  const Suite planned = plan_suite(request);
  return std::filesystem::exists(request.out / kSuiteFile) &&
                 (options.resume || options.command->got_subcommand("plan"))
             ? join_suite(planned)
             : planned;
}

std::vector<std::filesystem::path> records_of(const SuiteOptions& options) {
  if (options.records.empty()) return {"results/measured"};
  for (const std::string& path : options.records) {
    if (!std::filesystem::exists(path))
      throw UsageError("--records " + path + ": there is no such file or folder");
  }
  return {options.records.begin(), options.records.end()};
}

// Makes the suite's folder or joins what is there.
Suite opened_suite(const SuiteOptions& options, const Suite& planned, int64_t threads_given,
                   int64_t jobs) {
  suite_data(planned);  // what is missing is found before anything is written
  const auto resume = options.resume ? Resume::yes : Resume::no;
  return open_suite(planned, resume, threads_given, [&](const Suite& suite) {
    return predicted_hours(suite, predict(suite, {.records = records_of(options), .probe = true}),
                           jobs);
  });
}

void run(const SuiteOptions& options) {
  RunnerOptions runner = runner_of(options);
  const int64_t threads = cell_threads(runner);
  const Suite planned = planned_suite(options, threads, runner.devices.front());
  if (options.command->count("--only") > 0)
    runner.only = parse_cells(options.only, planned.cells.size());
  for (const std::string& device : runner.devices) {
    parse_device(device);
    if (device.substr(0, device.find(':')) != planned.request.device) {
      throw UsageError(
          fmt::format("the suite in {} is of device {}, not {}; choose it, or another "
                      "--out folder",
                      options.out, planned.request.device, device));
    }
  }
  const Suite suite =
      opened_suite(options, planned, options.threads > 0 ? threads : 0, runner.jobs);
  if (suite.request.threads != threads)
    say(fmt::format("cells run with {} thread{} each, as the suite began", suite.request.threads,
                    suite.request.threads == 1 ? "" : "s"));
  const int64_t failed = run_suite(suite, runner);
  if (failed > 0)
    throw Error(fmt::format(
        "{} part(s) of the suite did not end as ok; see the table and their result.json", failed));
}

void show_plan(const SuiteOptions& options) {
  const RunnerOptions runner = runner_of(options);
  Suite suite = planned_suite(options, cell_threads(runner), runner.devices.front());
  const PredictOptions from{.records = records_of(options),
                            .probe = options.probe || suite.request.max_hours > 0};
  std::vector<Prediction> predictions = predict(suite, from);
  // What a run would cut, where none has begun.
  const double limit = suite.request.max_hours;
  if (limit > 0 && suite.fraction == 1) {
    const double whole = predicted_hours(suite, predictions, runner.jobs);
    if (whole > limit) {
      suite = plan_suite(suite.request, limit / whole);
      predictions = predict(suite, from);
    }
  }
  if (options.as_json) {
    fmt::print("{}\n", plan_json(suite, predictions, runner.jobs).dump(2));
  } else {
    fmt::print("{}", to_text(plan_table(suite, predictions, runner.jobs)));
  }
}

size_t terminal_rows() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

void show_status(const SuiteOptions& options) {
  if (options.out.empty()) throw UsageError("--out is required: the suite's folder");
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  for (;;) {
    SuiteStatus status = suite_status(options.out);
    const std::string trouble = add_queue(status);
    if (options.as_json) {
      fmt::print("{}\n", status_json(status).dump(2));
    } else if (options.watch && terminal) {
      // The table, what is below it, and the line of the cursor.
      const size_t rows = terminal_rows();
      fmt::print("\x1b[H\x1b[2J{}{}", status_text(status, rows > 8 ? rows - 7 : 1),
                 trouble.empty() ? "" : trouble + "\n");
    } else if (options.watch) {
      fmt::print("{}\n", status_line(status));
    } else {
      fmt::print("{}", status_text(status));
      if (!trouble.empty()) say(trouble);
    }
    std::fflush(stdout);
    if (!options.watch || status.all_ended()) return;
    const auto pause = std::chrono::seconds(terminal ? 2 : 30);
    for (const auto until = std::chrono::steady_clock::now() + pause;
         std::chrono::steady_clock::now() < until;) {
      if (stop_requested()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

void submit_suite(const SuiteOptions& options) {
  if (!options.slurm) throw UsageError("lra suite submit knows one kind of cluster: give --slurm");
  if (options.jobs > 0 || !options.devices.empty())
    throw UsageError(
        "--jobs and --devices are for one host; --array-limit says how many jobs run "
        "at a time, --gpus what each gets");
  const SlurmOptions& cluster = options.cluster;
  const int64_t threads = cluster.cpus > 0      ? cluster.cpus
                          : options.threads > 0 ? options.threads
                                                : 1;
  const std::string device = cluster.gpus.empty() ? options.device : "cuda";
  const Suite planned = planned_suite(options, threads, device);
  const bool exists = std::filesystem::exists(planned.request.out / kSuiteFile);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  SlurmOptions asked = cluster;
  asked.timeout = options.timeout;
  if (options.dry_run) {
    if (!exists) suite_data(planned);
    const Suite suite = exists ? load_suite(planned.request.out) : planned;
    for (const SlurmScript& script : slurm_scripts(suite, open_cells(suite), asked, program))
      fmt::print("# {}\n{}\n", script.path.string(), script.text);
    return;
  }
  const Suite suite = opened_suite(options, planned, cluster.cpus, /*jobs=*/1);
  const std::vector<size_t> cells = open_cells(suite);
  const std::vector<std::string> jobs = submit(suite, slurm_scripts(suite, cells, asked, program));
  fmt::print("{} cells to run, in job{} {}\n", cells.size(), jobs.size() == 1 ? "" : "s",
             fmt::join(jobs, ", "));
  say(fmt::format("lra suite status --out {} shows where they stand", suite.request.out.string()));
}

void suite(const SuiteOptions& options) {
  if (options.command->got_subcommand("plan")) {
    show_plan(options);
  } else if (options.command->got_subcommand("status")) {
    show_status(options);
  } else if (options.command->got_subcommand("submit")) {
    submit_suite(options);
  } else {
    run(options);
  }
}

}  // namespace

void add_suite_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("suite", "Train and measure attentions on tasks, and print the tables");
  auto options = std::make_shared<SuiteOptions>();
  options->command = command;
  command->require_subcommand(0, 1);
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
  command->add_option("--out", options->out,
                      "Folder for everything; default: runs/suite-<budget>. Any number of runners, "
                      "on any number of hosts, may share it");
  command->add_flag("--resume", options->resume,
                    "Go on with the suite in that folder, join those who are at it, or start it; "
                    "with --out alone the folder says what the suite is");
  command
      ->add_option("--max-hours", options->max_hours,
                   "Cut the steps of all cells by the same part, schedules with them, so that "
                   "training is predicted to end in so many hours; the records say so")
      ->check(CLI::Range(1e-6, 1e6));
  command
      ->add_option("--records", options->records,
                   "Folder or file of runs and profiles that plan and --max-hours predict from, "
                   "beside OUT (repeatable); default: results/measured")
      ->allow_extra_args(false);
  command
      ->add_option("--jobs", options->jobs,
                   "Cells at a time on a CPU; --threads and memory are shared out over them; "
                   "default: 1")
      ->check(CLI::Range(1, 1 << 12));
  command->add_option("--devices", options->devices,
                      "GPUs to use, one cell on each at a time, as cuda:0,cuda:1");
  command
      ->add_option("--timeout", options->timeout,
                   "Seconds for a cell over all its tries; then it is timeout. 0 = none")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command
      ->add_option("--tries", options->tries,
                   "A cell whose process dies so many times in a row without a new checkpoint is "
                   "crash")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--only", options->only,
                      "These cells alone, by their numbers in lra suite plan, as 0,4-7; without "
                      "profile and report");
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--dtype", options->dtype, "float32, or bfloat16 (autocast)")
      ->capture_default_str();
  command
      ->add_option("--threads", options->threads,
                   "Of this runner, shared out over --jobs; 0 = all processors. A cell's are "
                   "part of its results: the suite keeps those it began with")
      ->capture_default_str();
  const char* more = "It takes the options of lra suite too";
  auto* plan = command->add_subcommand(
      "plan", "Every cell with its predicted time and memory, what exists already, and totals");
  plan->footer(more);
  plan->add_flag("--probe", options->probe,
                 "Measure some training steps of what nothing is known of (seconds a recipe), into "
                 "OUT/probe.jsonl");
  plan->add_flag("--json", options->as_json, "As JSON");
  auto* status = command->add_subcommand("status", "Where the suite in --out stands, cell by cell");
  status->add_flag(
      "--watch", options->watch,
      "Live until all cells have ended; where stdout is no terminal, a line every 30 s");
  status->add_flag("--json", options->as_json, "As JSON");
  auto* submit = command->add_subcommand(
      "submit", "Hand the suite to a cluster: one job a cell, then one for profile and report");
  submit->footer(more);
  SlurmOptions& cluster = options->cluster;
  submit->add_flag("--slurm", options->slurm, "To Slurm, as job arrays");
  submit->add_flag("--dry-run", options->dry_run, "Print the scripts; write and submit nothing");
  submit->add_option("--partition", cluster.partition, "As sbatch takes it");
  submit->add_option("--account", cluster.account, "As sbatch takes it");
  submit->add_option("--time", cluster.time,
                     "Time limit of a job, as sbatch takes it; a cell that needs more goes on in "
                     "another");
  submit->add_option("--mem", cluster.mem, "Memory of a job, as sbatch takes it, as 8G");
  submit->add_option("--gpus", cluster.gpus, "GPUs of a job, as sbatch takes it; cells run on one");
  submit
      ->add_option("--cpus", cluster.cpus,
                   "Processors of a job and threads of its cell; default: --threads, or 1")
      ->check(CLI::Range(1, 1 << 12));
  submit->add_option("--array-limit", cluster.array_limit, "Jobs of an array at a time; 0 = all")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  submit
      ->add_option("--warning", cluster.warning,
                   "Seconds before its time limit at which a job writes a checkpoint and goes back "
                   "to the queue")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->callback([options] { suite(*options); });
}

}  // namespace lra
