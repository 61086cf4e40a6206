// `lra report`: tables of any number of runs, profiles, steps taken apart and fidelity experiments,
// on the terminal, as files and as pages for a browser, and plots.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "harness/commands/commands.h"
#include "harness/report/write_report.h"
#include "harness/suite/suite.h"
#include "results/store/store.h"

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
  if (records.results.empty() && records.profiles.empty() && records.fidelity.empty() &&
      records.where.empty()) {
    const std::string reason =
        records.bad.empty() ? ""
                            : fmt::format("; {}: {}{}", records.bad[0].path, records.bad[0].reason,
                                          and_more(records.bad.size()));
    throw Error(fmt::format(
        "nothing to report in {}: looked for result.json ({}) and *.jsonl ({}, {}, {}){}",
        fmt::join(options.paths, ", "), kResultSchema, kProfileSchema, kFidelitySchema,
        kWhereSchema, reason));
  }
  write_report(records, options.out);
  if (!options.tensorboard.empty()) write_event_files(records, options.tensorboard);
}

}  // namespace

void add_report_command(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      app.add_subcommand("report", "Tables and plots of runs, profiles and fidelity experiments");
  command
      ->add_option(
          "PATH", options->paths,
          "Folders of runs or suites, result.json, and .jsonl files of lra profile, lra profile "
          "--where and lra fidelity")
      ->required();
  command->add_option("--out", options->out, "Folder for the files of the report")->required();
  command->add_option("--tensorboard", options->tensorboard,
                      "Folder for the runs' logs as TensorBoard event files, too");
  command->callback([options] { report(*options); });
}

}  // namespace lra
