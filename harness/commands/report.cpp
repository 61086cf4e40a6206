// `lra report`: tables of any number of runs, profiles and fidelity experiments, on the terminal,
// as files and as pages for a browser, and plots.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/report/plots.h"
#include "harness/report/samples.h"
#include "harness/suite/predict.h"
#include "results/report/event_file.h"
#include "results/report/html_report.h"
#include "results/report/report.h"

namespace lra {
namespace {

struct ReportOptions {
  std::vector<std::string> paths;
  std::string out, tensorboard;
};

void make_folder(const char* option, const std::filesystem::path& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code)
    throw Error(
        fmt::format("{} {}: cannot make the folder: {}", option, folder.string(), code.message()));
}

// report.html and the runs' pages; returns how many files.
size_t write_pages(const Records& records, const std::filesystem::path& out,
                   const std::vector<std::string>& scripts) {
  std::map<std::string, std::string> drawn = drawn_plots(out, run_plots_script(records));
  for (const std::string& script : scripts) {
    const std::filesystem::path svg = (out / script).replace_extension(".svg");
    if (std::filesystem::exists(svg)) drawn[svg.stem().string()] = read_file(svg);
  }
  const auto pages = make_pages(records, drawn, prepared_samples());
  if (pages.size() > 1) make_folder("--out", out / "runs");
  for (const auto& [name, content] : pages) write_file(out / name, content);
  return pages.size();
}

void write_event_files(const Records& records, const std::filesystem::path& folder) {
  const std::vector<std::string> names = page_names(records.results);
  size_t written = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& log = records.results[i].log;
    if (!log || log->empty()) continue;
    const std::filesystem::path run = folder / names[i];
    make_folder("--tensorboard", run);
    write_file(run / "events.out.tfevents.0.lra", event_file(*log));
    ++written;
  }
  say(fmt::format("wrote the logs of {} runs to {}; see them with: tensorboard --logdir {}",
                  written, folder.string(), folder.string()));
}

namespace fs = std::filesystem;

// Of a folder all but the probes of lra suite plan: a few steps, measured to predict times and not
// to be reported. A probe file that is named itself is taken.
Records records_to_report(const std::vector<std::string>& paths) {
  const auto is_probe = [&](const std::string& path) {
    return fs::path(path).filename() == kProbeFile && std::ranges::count(paths, path) == 0;
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
  make_folder("--out", options.out);
  const auto files = make_report(records);
  std::vector<std::string> scripts;
  for (const auto& [name, content] : files) {
    write_file(fs::path(options.out) / name, content);
    if (!name.ends_with(kPlotScript)) continue;
    scripts.push_back(name);
    // Where it cannot be drawn anew, an earlier report's must not stand in for it.
    for (const char* extension : {".svg", ".pdf"})
      remove_tree((fs::path(options.out) / name).replace_extension(extension));
  }
  const std::vector<std::string> failures = draw_plots(options.out, scripts);
  const size_t pages = write_pages(records, options.out, scripts);
  fmt::print("{}", summary_text(records));
  if (!bad.empty()) say("left out, or in part:\n" + bad.substr(0, bad.size() - 1));
  for (const std::string& failure : failures) say(failure);
  const size_t plots = failures.empty() ? 2 * scripts.size() : 0;
  say(fmt::format("wrote {} files to {}{}; {} is the page to open", files.size() + plots + pages,
                  options.out, plots > 0 ? fmt::format(", {} of them plots", plots) : "",
                  (fs::path(options.out) / "report.html").string()));
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
          "Folders of runs or suites, result.json, and .jsonl files of lra profile and lra "
          "fidelity")
      ->required();
  command->add_option("--out", options->out, "Folder for the files of the report")->required();
  command->add_option("--tensorboard", options->tensorboard,
                      "Folder for the runs' logs as TensorBoard event files, too");
  command->callback([options] { report(*options); });
}

}  // namespace lra
