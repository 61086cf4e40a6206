// lra tune: a search over a grid of settings that costs every attention the same, on dev alone.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/base/shell.h"
#include "attention_variants/base/text.h"
#include "harness/commands/commands.h"
#include "harness/commands/suite_request.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/suite/cell.h"
#include "harness/suite/suite_data.h"
#include "harness/tune/choose.h"
#include "harness/tune/search.h"
#include "harness/tune/tuned_protocol.h"
#include "lra/data/task.h"

namespace lra {
namespace {

struct TuneOptions {
  std::string task;
  std::vector<std::string> grid;
  SuiteOptions cells;  // what it has in common with lra suite
};

tune::TuneRequest tune_request(const TuneOptions& given, const suite::RunnerOptions& runner) {
  const SuiteOptions& options = given.cells;
  const std::string& device = runner.devices.front();
  return {.task = task(given.task).name,
          .attentions = parse_attentions(options.attentions),
          .seeds = parse_seeds(options.seeds),
          .protocol = options.protocol,
          .sets = options.sets,
          .points = tune::grid_points(given.grid, options.sets),
          .data = options.data,
          .out = options.out,
          .device = host::device_kind(device),
          .dtype = options.dtype,
          .threads = cell_threads(runner),
          .threads_given = options.threads > 0};
}

void print_plan(const tune::Search& search, double timeout) {
  print_table(tune::score_table(tune::file_of(search)));
  const size_t cells = search.suite.cells.size(),
               open = suite::open_cells(search.suite, timeout).size();
  fmt::print("{}: {} ended, {} to run\n", count_text(cells, "cell"), cells - open, open);
}

void write_choice(const tune::TuneFile& file, const std::filesystem::path& out) {
  const tune::TunedProtocol written = tune::write_protocol(file, out);
  host::say(fmt::format("the protocol with what was chosen: --protocol {}",
                        shell_word(written.path.string())));
  if (!written.earlier.empty())
    host::say(fmt::format(
        "what was chosen before: --protocol {}; a suite goes on with that and its own options",
        shell_word(written.earlier.string())));
}

// Throws where a cell failed, or an attention is without a choice: the protocol would be of trials
// that not all attentions had. That a rate is too high for an attention is a finding of the search.
void check_end(const tune::TuneFile& file, const std::filesystem::path& out) {
  const auto failed = std::ranges::count_if(file.cells, [](const tune::TunedCell& cell) {
    return cell.status != Status::ok && cell.status != Status::diverged &&
           cell.status != Status::pending;
  });
  if (failed > 0) {
    const bool earlier = std::filesystem::exists(out / tune::kTunedProtocol);
    throw Error(fmt::format(
        "{} of {} cells ended neither as ok nor as diverged, so that no protocol is written{}; see "
        "the table and their result.json; the same command takes up again those that crashed, and "
        "with a longer --timeout those whose time is over; without what does not fit or is not "
        "supported give another --out",
        failed, file.cells.size(),
        earlier ? fmt::format(" ({} is from an earlier call's points)", tune::kTunedProtocol)
                : ""));
  }
  std::vector<std::string> without = file.attentions;
  std::erase_if(without, [&](const std::string& attention) {
    return std::ranges::count(file.chosen, attention, &tune::ChosenPoint::attention) > 0;
  });
  if (!without.empty()) {
    throw Error(fmt::format(
        "nothing is chosen for {}: no point has all of its seeds ok; try another --grid",
        fmt::join(without, ", ")));
  }
}

void run_tune(const TuneOptions& options) {
  begin_work_in_files();
  suite::RunnerOptions runner = runner_of(options.cells);
  runner.go_on = "the same command";
  for (const std::string& device : runner.devices) host::parse_device(device);
  tune::Search search = tune::plan_search(tune_request(options, runner));
  if (options.cells.dry_run) return print_plan(search, options.cells.cell.timeout);
  tune::record_search(search);
  suite::say_cut_samples(search.suite,
                         {{.task = search.request.task, .directory = search.request.data}});
  const int64_t threads = search.request.threads;
  if (threads != cell_threads(runner)) {
    host::say(
        fmt::format("cells run with {} each, as the search began", count_text(threads, "thread")));
  }
  tune::TuneFile file;
  do {  // another command may have added points meanwhile; what is chosen is chosen among all
    tune::run_search(search, runner);
    file = tune::record_search(search);
  } while (std::ranges::count(file.cells, Status::pending, &tune::TunedCell::status) > 0);
  print_table(tune::score_table(file));
  check_end(file, search.request.out);
  write_choice(file, search.request.out);
}

void add_tune_options(CLI::App& command, TuneOptions& options) {
  SuiteOptions& cells = options.cells;
  cells.command = &command;
  cells.seeds = "0,1";
  cells.data = "data";
  command.add_option("--task", options.task, "Task; see lra list tasks")->required();
  command.add_option("--attentions", cells.attentions, "Comma list, each with the same cells")
      ->required();
  command
      .add_option("--grid", options.grid,
                  "Values of a setting to try, as optimizer.lr=1e-4,3e-4,1e-3 (repeatable: all "
                  "against all)")
      ->required()
      ->allow_extra_args(false);
  command.add_option("--seeds", cells.seeds, "Of every point: comma list with ranges, as 0-4,7")
      ->capture_default_str();
  command.add_option("--protocol", cells.protocol, "Protocol, or a path to one")
      ->capture_default_str();
  command
      .add_option("--set", cells.sets,
                  "Override at every point, as training.batch=16 (repeatable, the last of a key "
                  "counts)")
      ->allow_extra_args(false);
  command
      .add_option("--data", cells.data,
                  "Folder of lra data prepare --out; the test split is never opened")
      ->check(some_name())
      ->capture_default_str();
  command
      .add_option("--out", cells.out,
                  "Folder for everything. The same command goes on with it, with another --grid it "
                  "adds cells; any number may run at a time")
      ->check(some_name())
      ->required();
  command.add_flag("--dry-run", cells.dry_run,
                   "Print the points and what is known of them; run and write nothing");
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "tune", "Choose settings of each attention on dev, by a grid that costs all the same");
  auto options = std::make_shared<TuneOptions>();
  add_tune_options(*command, *options);
  add_runner_options(*command, options->cells);
  command->callback([options] { run_tune(*options); });
}

}  // namespace lra
