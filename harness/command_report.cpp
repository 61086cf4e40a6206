// `lra report`: tables of any number of runs, profiles and fidelity experiments, on the terminal
// and as files, and plots.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/error.h"
#include "harness/commands.h"
#include "harness/plot.h"
#include "harness/progress.h"
#include "lra/files.h"
#include "results/report.h"

namespace lra {
namespace {

struct Options {
  std::vector<std::string> paths;
  std::string out;
};

void report(const Options& options) {
  namespace fs = std::filesystem;
  if (fs::exists(options.out) && !fs::is_directory(options.out)) {
    throw UsageError(fmt::format("--out {}: is a file; name a folder", options.out));
  }
  const Records records = find_records({options.paths.begin(), options.paths.end()});
  const std::string bad = bad_files_text(records);
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
  std::error_code code;
  fs::create_directories(options.out, code);
  if (code)
    throw Error(fmt::format("--out {}: cannot make the folder: {}", options.out, code.message()));
  const auto files = make_report(records);
  std::vector<std::string> scripts;
  for (const auto& [name, content] : files) {
    write_file(fs::path(options.out) / name, content);
    if (name.ends_with(kPlotScript)) scripts.push_back(name);
  }
  const std::vector<std::string> failures = draw_plots(options.out, scripts);
  fmt::print("{}", summary_text(records));
  if (!bad.empty()) say("left out, or in part:\n" + bad.substr(0, bad.size() - 1));
  for (const std::string& failure : failures) say(failure);
  const size_t plots = failures.empty() ? 2 * scripts.size() : 0;
  say(fmt::format("wrote {} files to {}{}", files.size() + plots, options.out,
                  plots > 0 ? fmt::format(", {} of them plots", plots) : ""));
}

}  // namespace

void add_report_command(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("report", "Tables and plots of runs, profiles and fidelity experiments");
  command
      ->add_option(
          "PATH", options->paths,
          "Folders of runs or suites, result.json, and .jsonl files of lra profile and lra "
          "fidelity")
      ->required();
  command->add_option("--out", options->out, "Folder for the files of the report")->required();
  command->callback([options] { report(*options); });
}

}  // namespace lra
