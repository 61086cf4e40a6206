#include "harness/report/write_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/files.h"
#include "harness/host/folder_lock.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/host/terminal.h"
#include "harness/report/plots.h"
#include "harness/report/report_files.h"
#include "harness/report/samples.h"
#include "results/records/event_file.h"
#include "results/records/file_names.h"
#include "results/report/html_report.h"
#include "results/report/report.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

void make_folder(const char* option, const fs::path& folder) {
  const std::string trouble = make_folders(folder);
  if (!trouble.empty())
    throw Error(fmt::format("{} {}: cannot make the folder: {}", option, folder.string(), trouble));
}

// A file of ours in a folder of ours, unless the suite that this is the end of is to stop.
void write_ours(const fs::path& path, const std::string& content) {
  if (host::stop_requested()) throw host::Interrupted("stopped; the same command starts again");
  write_file(path, content, Links::replace);
}

// report.html and the runs' pages, to `written` too.
void write_pages(const Records& records, const fs::path& out,
                 const std::vector<std::string>& scripts, ReportFiles& listed,
                 std::set<std::string>& written) {
  std::map<std::string, std::string> drawn = drawn_plots(out, run_plots_script(records));
  for (const std::string& script : scripts) {
    const fs::path svg = (out / script).replace_extension(".svg");
    if (fs::exists(svg)) drawn[svg.stem().string()] = read_file(svg);
  }
  const auto pages = make_pages(records, drawn, prepared_samples());
  for (const auto& [name, content] : pages) written.insert(name);
  listed.begin(written);
  if (pages.size() > 1) make_folder("--out", out / "runs");
  for (const auto& [name, content] : pages) write_ours(out / name, content);
}

}  // namespace

void write_report(Records records, const fs::path& out) {
  name_files_alike(records);
  make_folder("--out", out);
  const host::FolderLock lock = host::FolderLock(out, ".lock").removed_at_end();
  const auto files = make_report(records);
  ReportFiles listed(out);
  std::vector<std::string> scripts;
  std::set<std::string> written, plots;
  for (const auto& [name, content] : files) {
    written.insert(name);
    if (!name.ends_with(kPlotScript)) continue;
    for (const char* extension : {".svg", ".pdf"})
      plots.insert(fs::path(name).replace_extension(extension).string());
  }
  written.insert(plots.begin(), plots.end());
  std::set<std::string> all = written;
  for (const std::string& page : page_files(records)) all.insert(page);
  listed.refuse_others(all);
  listed.begin(written);
  for (const char* page : {kReportFile, kReportPage}) remove_tree(out / page);
  for (const auto& [name, content] : files) {
    if (name != kReportFile) write_ours(out / name, content);
    if (!name.ends_with(kPlotScript)) continue;
    scripts.push_back(name);
    // Where it cannot be drawn again, the plot of an earlier report must not remain.
    for (const char* extension : {".svg", ".pdf"})
      remove_tree((out / name).replace_extension(extension));
  }
  const std::vector<std::string> failures = draw_plots(out, scripts);
  write_pages(records, out, scripts, listed, written);
  write_ours(out / kReportFile, files.at(kReportFile));  // the last: it says that all is there
  std::erase_if(written, [&](const std::string& name) { return !fs::exists(out / name); });
  listed.finish(written);
  fmt::print("{}", summary_text(records, host::table_columns()));
  const std::string bad = bad_files_text(records);
  if (!bad.empty()) host::say("left out, or in part:\n" + bad.substr(0, bad.size() - 1));
  for (const std::string& failure : failures) host::say(failure);
  const auto drawn = std::ranges::count_if(
      plots, [&written](const std::string& name) { return written.contains(name); });
  host::say(fmt::format("wrote {} files to {}{}; {} is the page to open", written.size(),
                        out.string(), drawn > 0 ? fmt::format(", {} of them plots", drawn) : "",
                        (out / "report.html").string()));
}

void write_event_files(const Records& records, const fs::path& folder) {
  const std::vector<std::string> names = page_names(records.results);
  size_t written = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& log = records.results[i].log;
    if (!log || log->empty()) continue;
    const fs::path run = folder / names[i];
    make_folder("--tensorboard", run);
    write_ours(run / "events.out.tfevents.0.lra", event_file(*log));
    ++written;
  }
  host::say(fmt::format("wrote the logs of {} runs to {}; see them with: tensorboard --logdir {}",
                        written, folder.string(), folder.string()));
}

}  // namespace lra
