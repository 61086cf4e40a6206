// `lra report`: tables of any number of runs, profiles and fidelity experiments, on the terminal,
// as files and as pages for a browser, and plots. `lra compare`: two runs, or the seeds of two
// attentions, on the same task, data and recipe.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/host/terminal.h"
#include "harness/report/write_report.h"
#include "harness/suite/suite.h"
#include "results/analysis/compare_runs.h"
#include "results/print/terminal.h"
#include "results/records/json_line.h"
#include "results/records/run_folder.h"
#include "results/records/store.h"
#include "results/report/report.h"
#include "results/tables/comparison_table.h"

namespace lra {
namespace {

struct ReportOptions {
  std::vector<std::string> paths;
  std::string out, tensorboard;
};

namespace fs = std::filesystem;

// Of a folder all but the probes of lra suite plan: a few steps, measured to predict times and not
// to be reported. A probe file that is named itself is taken.
Records records_to_report(const std::vector<std::string>& paths) {
  const auto is_probe = [&](const std::string& path) {
    return fs::path(path).filename() == suite::kProbeFile && std::ranges::count(paths, path) == 0;
  };
  Records records = find_records({paths.begin(), paths.end()});
  std::erase_if(records.profiles, [&](const Profile& profile) { return is_probe(profile.path); });
  std::erase_if(records.bad, [&](const BadFile& file) { return is_probe(file.path); });
  return records;
}

void report(const ReportOptions& options) {
  if (fs::exists(options.out) && !fs::is_directory(options.out)) {
    throw UsageError(fmt::format("--out {}: is a file; name a folder", options.out));
  }
  const Records records = records_to_report(options.paths);
  if (records.results.empty() && records.profiles.empty() && records.fidelity.empty()) {
    const std::string reason =
        records.bad.empty() ? ""
                            : fmt::format("; {}: {}", records.bad[0].path, records.bad[0].reason);
    const std::string more =
        records.bad.size() > 1 ? fmt::format(" (and {} more)", records.bad.size() - 1) : "";
    throw Error(
        fmt::format("nothing to report in {}: looked for result.json ({}) and *.jsonl ({}, {}){}{}",
                    fmt::join(options.paths, ", "), kResultSchema, kProfileSchema, kFidelitySchema,
                    reason, more));
  }
  write_report(records, options.out);
  if (!options.tensorboard.empty()) write_event_files(records, options.tensorboard);
}

struct CompareOptions {
  std::string a, b;
  bool as_json = false;
};

std::vector<Result> runs_of(const std::string& path) {
  const Records records = find_records({path});
  if (records.results.empty()) {
    throw Error(
        records.bad.empty()
            ? fmt::format("{} holds no run: looked for {} in it and its folders", path, kResultFile)
            : fmt::format("{}: {}", records.bad[0].path, records.bad[0].reason));
  }
  const std::string bad = bad_files_text(records);
  if (!bad.empty()) host::say("left out, or in part:\n" + bad.substr(0, bad.size() - 1));
  return records.results;
}

void compare(const CompareOptions& options) {
  const std::vector<Result> a = runs_of(options.a), b = runs_of(options.b);
  const RunComparison comparison = compare_runs(a, b);
  if (options.as_json) {
    fmt::print("{}\n", json_line(comparison_json(comparison)));
  } else {
    std::string text;
    for (const Table& table : comparison_tables(comparison))
      text += (text.empty() ? "" : "\n") + to_terminal(table, host::table_columns());
    fmt::print("{}", text);
  }
}

}  // namespace

void add_report_command(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      app.add_subcommand("report", "Tables and plots of runs, profiles and fidelity experiments");
  command
      ->add_option(
          "PATH", options->paths,
          "Folders of runs or suites, result.json, and .jsonl files of lra profile and lra "
          "fidelity")
      ->required();
  command->add_option("--out", options->out, "Folder for the files of the report")->required();
  command->add_option("--tensorboard", options->tensorboard,
                      "Folder for the runs' logs as TensorBoard event files, too");
  command->callback([options] { report(*options); });
}

void add_compare_command(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "Whether two attentions differ in accuracy, time and memory, run against run");
  command
      ->add_option("RUN_A", options->a,
                   "A run's folder, or a folder with the runs of one attention over seeds")
      ->required();
  command->add_option("RUN_B", options->b, "What to compare it with, likewise")->required();
  command->add_flag("--json", options->as_json, "Print one JSON object instead of the table");
  command->callback([options] { compare(*options); });
}

}  // namespace lra
