// `lra compare`: two runs, or the seeds of two attentions, on the same task, data and recipe.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "attention_variants/base/error.h"
#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/host/terminal.h"
#include "results/analysis/compare_runs.h"
#include "results/print/terminal.h"
#include "results/records/file_names.h"
#include "results/records/json_line.h"
#include "results/report/report.h"
#include "results/store/store.h"
#include "results/tables/comparison_table.h"

namespace lra {
namespace {

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

// That there are two of them: else what is printed is that a run equals itself.
void check_two_sides(const CompareOptions& options, const std::vector<Result>& a,
                     const std::vector<Result>& b) {
  for (const Result& left : a) {
    for (const Result& right : b) {
      std::error_code code;
      if (!std::filesystem::equivalent(left.path, right.path, code)) continue;
      throw UsageError(
          fmt::format("the run {} is on both sides, of {} and of {}; name two that "
                      "share none",
                      left.path, options.a, options.b));
    }
  }
}

void compare(const CompareOptions& options) {
  const std::vector<Result> a = runs_of(options.a), b = runs_of(options.b);
  check_two_sides(options, a, b);
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
