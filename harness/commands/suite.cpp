// lra suite: the whole comparison in one command; and its plan, its status and its way to a
// cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "attention_variants/base/shell.h"
#include "attention_variants/base/text.h"
#include "harness/commands/commands.h"
#include "harness/commands/suite_request.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/self_command.h"
#include "harness/host/signals.h"
#include "harness/host/terminal.h"
#include "harness/suite/cell.h"
#include "harness/suite/finish.h"
#include "harness/suite/job.h"
#include "harness/suite/plan/plan.h"
#include "harness/suite/run_suite.h"
#include "harness/suite/status.h"
#include "harness/suite/suite_data.h"
#include "harness/suite/suite_folder.h"
#include "results/print/terminal.h"

namespace lra {
namespace {

// Makes the suite's folder or joins what is there.
suite::OpenedSuite opened_suite(const SuiteOptions& options, const suite::Suite& planned,
                                int64_t threads_given, int64_t jobs) {
  // What is missing, or cannot serve, is found before anything is written.
  const bool begins = !std::filesystem::exists(planned.request.out / kSuiteFile);
  if (begins) suite::check_attentions(planned);
  std::vector<suite::TaskData> data;
  try {
    data = suite::suite_data(planned);
  } catch (const UsageError& error) {
    if (!begins || !options.resume) throw;
    throw UsageError(fmt::format("{} holds no suite to resume, and for a new one {}",
                                 planned.request.out.string(), error.what()));
  }
  suite::check_cut_samples(planned, data);
  if (begins) suite::check_given_data(planned, data);
  const auto resume = options.resume ? Resume::yes : Resume::no;
  suite::OpenedSuite opened =
      suite::open_suite(planned, resume, threads_given, [&](const suite::Suite& suite) {
        return suite::predicted_hours(
            suite, suite::predict(suite, {.records = records_of(options), .probe = true}), jobs);
      });
  if (opened.is_new && options.resume) {
    host::say(fmt::format("no suite in {} yet: this is a new one of budget {}, {} cells",
                          planned.request.out.string(), planned.request.budget.name,
                          planned.cells.size()));
  }
  return opened;
}

// Work on a suite. Where it fails before the first cell of a suite that was made for it, the suite
// goes again: the corrected command may be another one.
template <class Work>
auto work_on(const suite::OpenedSuite& opened, Work work) {
  try {
    return work(opened.suite);
  } catch (const host::Interrupted&) {
    throw;
  } catch (const std::exception&) {
    if (opened.is_new) suite::withdraw_suite(opened);
    throw;
  }
}

// Only a prediction reads records.
void check_records_read(const SuiteOptions& options) {
  if (options.records.empty() || options.max_hours > 0) return;
  throw UsageError(
      "--records is what lra suite plan and --max-hours predict from: give --max-hours "
      "too, or leave it out");
}

void run(const SuiteOptions& options) {
  check_records_read(options);
  suite::RunnerOptions runner = runner_of(options);
  const int64_t threads = cell_threads(runner);
  const suite::Suite planned = planned_suite(options, threads, runner.devices.front());
  if (options.command->count("--only") > 0)
    runner.only = parse_cells(options.only, planned.cells.size());
  use_device_of(planned, options, runner);
  for (const std::string& device : runner.devices) host::parse_device(device);
  const suite::OpenedSuite opened =
      opened_suite(options, planned, options.threads > 0 ? threads : 0, runner.jobs);
  const suite::Suite& suite = opened.suite;
  if (suite.request.threads != threads)
    host::say(fmt::format("cells run with {} each, as the suite began",
                          count_text(suite.request.threads, "thread")));
  const int64_t failed =
      work_on(opened, [&](const suite::Suite& of) { return suite::run_suite(of, runner); });
  if (failed > 0)
    throw Error(fmt::format(
        "{} part(s) of the suite did not end as ok; see the table and their result.json", failed));
  if (!runner.only.empty()) return;
  for (const std::string& line : suite::next_commands(suite, host::self_command().called))
    host::say("next: " + line);
}

// Throws UsageError, with {} for its name, on an option that the subcommand does not take.
void check_taken(const SuiteOptions& options, const std::string& subcommand, const char* text) {
  for (const CLI::Option* option : options.command->get_options()) {
    if (option->count() > 0 && !suite_takes(subcommand, option->get_name()))
      throw UsageError(fmt::format(fmt::runtime(text), option->get_name()));
  }
}

void show_plan(const SuiteOptions& options) {
  check_taken(options, "plan",
              "{} applies to lra suite and lra suite submit alone; lra suite plan lists all cells");
  const suite::RunnerOptions runner = runner_of(options);
  suite::Suite suite = planned_suite(options, cell_threads(runner), runner.devices.front());
  suite::check_cut_samples(suite, suite::suite_data(suite));
  const suite::PredictOptions from{.records = records_of(options),
                                   .probe = options.probe || suite.request.max_hours > 0};
  std::vector<suite::Prediction> predictions = suite::predict(suite, from);
  // What a run would cut, where none has begun.
  const double limit = suite.request.max_hours;
  if (limit > 0 && !std::filesystem::exists(suite.request.out / kSuiteFile)) {
    const double whole = suite::predicted_hours(suite, predictions, runner.jobs);
    if (whole > limit) {
      suite = suite::plan_suite(suite.request, limit / whole);
      predictions = suite::predict(suite, from);
    }
  }
  if (options.as_json) {
    print_json(suite::plan_json(suite, predictions, runner.jobs));
  } else {
    fmt::print("{}", to_terminal(suite::plan_table(suite, predictions, runner.jobs),
                                 host::table_columns()));
  }
}

void show_status(const SuiteOptions& options) {
  check_taken(options, "status", "{} is not of lra suite status, which reads the suite in --out");
  if (options.out.empty()) throw UsageError("--out is required: the suite's folder");
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  for (;;) {
    suite::SuiteStatus status = suite::suite_status(options.out);
    const std::string trouble = suite::add_queue(status);
    if (options.as_json) {
      print_json(suite::status_json(status));
    } else if (options.watch && terminal) {
      // The table, what is below it, and the line of the cursor.
      const size_t rows = host::terminal_rows();
      fmt::print("\x1b[H\x1b[2J{}{}", suite::status_text(status, rows > 8 ? rows - 7 : 1),
                 trouble.empty() ? "" : trouble + "\n");
    } else if (options.watch) {
      fmt::print("{}\n", suite::status_line(status));
    } else {
      fmt::print("{}", suite::status_text(status));
      if (!trouble.empty()) host::say(trouble);
    }
    std::fflush(stdout);
    if (!options.watch || status.all_ended()) return;
    const auto pause = std::chrono::seconds(terminal ? 2 : 30);
    for (const auto until = std::chrono::steady_clock::now() + pause;
         std::chrono::steady_clock::now() < until;) {
      if (host::stop_requested()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

// What of the options of lra suite the jobs are to have too.
suite::SlurmOptions slurm_of(const SuiteOptions& options) {
  suite::SlurmOptions asked = options.cluster;
  asked.cell = options.cell;
  asked.report = options.command->count("--only") == 0;
  return asked;
}

struct Submission {
  std::vector<size_t> cells;
  std::set<std::string> queued;  // jobs of earlier submissions that are in the queue
};

// The cells that have neither ended nor a job in the queue, of --only where it is given. Where none
// is left the last job is alone; throws where that is in the queue, too, or not asked for.
Submission to_submit(const SuiteOptions& options, const suite::Suite& suite) {
  Submission all{.cells = suite::open_cells(suite, options.cell.timeout), .queued = {}};
  if (options.command->count("--only") > 0) {
    const std::vector<size_t> only = parse_cells(options.only, suite.cells.size());
    std::erase_if(all.cells, [&](size_t cell) { return std::ranges::count(only, cell) == 0; });
    if (all.cells.empty()) {
      throw UsageError("--only " + options.only +
                       ": all of these cells have ended; name others, or leave it out");
    }
  }
  const suite::SlurmQueue queue = suite::queue_of(suite.request.out);
  if (!queue.trouble.empty())
    host::say(queue.trouble + ", so that cells that have a job may get a second one");
  for (const auto& [cell, job] : queue.cells) all.queued.insert(job.job);
  const size_t queued =
      std::erase_if(all.cells, [&](size_t cell) { return queue.cells.contains(cell); });
  if (queued == 0) return all;
  const std::string see =
      fmt::format("lra suite status --out {}", shell_word(suite.request.out.string()));
  if (all.cells.empty() && options.command->count("--only") > 0)
    throw Error("--only " + options.only + ": these cells have jobs in the queue already: " + see);
  if (all.cells.empty() && queue.report)
    throw Error("all that is left of the suite has jobs in the queue already: " + see);
  host::say(fmt::format("{} {} left out, with jobs in the queue already: {}",
                        count_text(queued, "cell"), queued == 1 ? "is" : "are", see));
  return all;
}

void submit_suite(const SuiteOptions& options) {
  if (!options.slurm) throw UsageError("lra suite submit knows one kind of cluster: give --slurm");
  check_taken(options, "submit",
              "--jobs and --devices are for one host; --array-limit says how many jobs run at a "
              "time, --gpus what each gets");
  check_records_read(options);
  const suite::SlurmOptions& cluster = options.cluster;
  if (options.device.starts_with("cuda:")) {
    throw UsageError("--device " + options.device +
                     ": the cluster chooses the GPU of a job; give --gpus, or --device cuda");
  }
  if (!cluster.gpus.empty() && options.device == "cpu" && options.command->count("--device") > 0)
    throw UsageError("--gpus " + cluster.gpus + " and --device cpu: give one of the two");
  if (cluster.cpus > 0 && options.threads > 0 && cluster.cpus != options.threads) {
    throw UsageError(fmt::format(
        "--cpus {} and --threads {}: a cell has as many threads as its job has processors; "
        "give one of the two",
        cluster.cpus, options.threads));
  }
  const int64_t threads_given = std::max(cluster.cpus, options.threads),
                threads = std::max<int64_t>(threads_given, 1);
  const std::string device = cluster.gpus.empty() ? options.device : "cuda";
  const suite::Suite planned = planned_suite(options, threads, device);
  const bool exists = std::filesystem::exists(planned.request.out / kSuiteFile);
  const host::SelfCommand& self = host::self_command();
  std::vector<std::string> program = self.words;
  program.front() = std::filesystem::canonical(self.program).string();
  const suite::SlurmOptions asked = slurm_of(options);
  if (options.dry_run) {
    if (!exists) suite::suite_data(planned);
    if (exists)
      suite::check_resumed(planned.request.out, options.resume ? Resume::yes : Resume::no);
    const suite::Suite suite = exists ? suite::join_suite(planned) : planned;
    suite::check_threads(suite.request.out, suite.request.threads, threads_given);
    for (const suite::SlurmScript& script :
         suite::slurm_scripts(suite, to_submit(options, suite).cells, asked, program))
      fmt::print("# {}\n{}\n", script.path.string(), script.text);
    return;
  }
  if (options.command->count("--only") > 0) parse_cells(options.only, planned.cells.size());
  const int64_t at_a_time =
      cluster.array_limit > 0 ? cluster.array_limit : std::ssize(planned.cells);
  work_on(opened_suite(options, planned, threads_given, at_a_time), [&](const suite::Suite& suite) {
    const Submission all = to_submit(options, suite);
    const std::vector<std::string> jobs =
        suite::submit(suite, suite::slurm_scripts(suite, all.cells, asked, program), all.queued);
    fmt::print("{} cells to run, in {} {}\n", all.cells.size(), plural("job", jobs.size()),
               fmt::join(jobs, ", "));
    host::say(fmt::format("lra suite status --out {} shows where they stand",
                          shell_word(suite.request.out.string())));
  });
}

void run_suite_command(const SuiteOptions& options) {
  host::stop_at_signals();
  if (options.command->got_subcommand("plan")) return show_plan(options);
  if (options.command->got_subcommand("status")) return show_status(options);
  host::outlive_readers();
  if (!options.child.empty()) {
    suite::run_train_job(options.child);
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
  command->require_subcommand(0, 1);
  add_suite_options(*command, *options);
  auto* plan = command->add_subcommand(
      "plan", "Every cell with its predicted time and memory, what exists already, and totals");
  add_plan_options(*plan, *options);
  auto* status = command->add_subcommand("status", "Where the suite in --out stands, cell by cell");
  add_status_options(*status, *options);
  auto* submit = command->add_subcommand(
      "submit", "Hand the suite to a cluster: one job a cell, then one for profile and report");
  add_submit_options(*submit, *options);
  command->callback([options] { run_suite_command(*options); });
}

}  // namespace lra
