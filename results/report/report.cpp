// Puts the tables of all records together.
#include "results/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "attention_variants/base/text.h"
#include "results/analysis/attention_names.h"
#include "results/plots/plots.h"
#include "results/print/terminal.h"
#include "results/records/file_names.h"
#include "results/records/json_line.h"
#include "results/report/latex_tables.h"
#include "results/store/store.h"
#include "results/tables/published_table.h"
#include "results/tables/summary_table.h"
#include "results/where/table.h"

namespace lra {
namespace {

constexpr size_t kMostOpsShown = 25;  // of a step; where.csv has all

std::string joined(const std::vector<Table>& tables,
                   const std::function<std::string(const Table&)>& print) {
  std::string text;
  for (const Table& table : tables) {
    if (!text.empty()) text += "\n";
    text += print(table);
  }
  return text;
}

// Tables for other programs, as the report shows them.
json tables_json(const std::vector<Table>& tables) {
  json value = json::array();
  for (const Table& table : tables) {
    json columns = json::array();
    for (const Column& column : table.columns) columns.push_back(column.header);
    value.push_back({{"title", table.title},
                     {"columns", columns},
                     {"rows", table.rows},
                     {"notes", table.notes}});
  }
  return value;
}

std::string markdown_report(const Records& records, const ReportTables& tables,
                            const std::vector<Plot>& plots) {
  std::string report = fmt::format("# Report\n\n{}\n", counts_text(records));
  const auto add_tables = [&report](const char* title, const std::vector<Table>& of_section) {
    if (!of_section.empty())
      report += fmt::format("\n## {}\n\n{}", title, joined(of_section, to_markdown));
  };
  const auto add_plots = [&](std::initializer_list<std::string_view> prefixes) {
    std::string pictures;
    for (const Plot& plot : plots) {
      const auto begins = [&plot](std::string_view prefix) {
        return plot.name.starts_with(prefix);
      };
      if (std::ranges::any_of(prefixes, begins))
        pictures += fmt::format("![{}]({}.svg)\n", markdown_text(alt_text(plot)), plot.name);
    }
    if (!pictures.empty())
      report += "\nPlots, where gnuplot has made them of the .gp files:\n\n" + pictures;
  };
  add_tables("Summary", {tables.summary});
  add_plots({"score-"});
  add_tables("Accuracy", tables.accuracy);
  add_tables("Differences in accuracy", tables.differences);
  add_tables("Published under other regimes", tables.regimes);
  add_plots({"tradeoff-", "curves-"});
  add_tables("Runs that never left the majority class", tables.curves);
  add_tables("Training cost", tables.training);
  add_tables("Memory and time", tables.cost);
  add_plots({"profile-"});
  add_tables("Memory and time in detail", tables.detail);
  add_plots({"where-"});
  add_tables("Where a step's time goes", tables.where);
  add_tables("Fidelity to softmax attention", tables.fidelity);
  add_plots({"fidelity-"});
  add_tables("Provenance", provenance_tables(records));
  if (!records.bad.empty()) add_tables("Files that could not be used", {bad_files_table(records)});
  if (!tables.notes.empty()) {
    report += "\n## Notes\n\n";
    for (size_t i = 0; i < tables.notes.size(); ++i)
      report += fmt::format("- [{}] {}\n", i + 1, markdown_text(tables.notes[i]));
  }
  return report;
}

}  // namespace

void name_files_alike(Records& records) {
  std::vector<const AttentionRecord*> of_runs, of_others;
  std::vector<AttentionRecord*> others;
  for (const Result& r : records.results) of_runs.push_back(&r.attention);
  for (Profile& p : records.profiles) others.push_back(&p.attention);
  for (Fidelity& f : records.fidelity) others.push_back(&f.attention);
  for (Where& w : records.where) others.push_back(&w.attention);
  of_others.assign(others.begin(), others.end());
  FileNames files = shortest_names(of_runs);
  files.merge(shortest_names(of_others));
  for (AttentionRecord* attention : others)
    *attention = with_file_name(std::move(*attention), files);
}

std::string counts_text(const Records& records) {
  const size_t where = records.where.size();
  return fmt::format("{}, {}, {}{}.", count_text(records.results.size(), "run"),
                     count_text(records.profiles.size(), "profile cell"),
                     count_text(records.fidelity.size(), "fidelity cell"),
                     where > 0 ? ", " + count_text(where, "step profile") : "");
}

std::vector<Table> provenance_tables(const Records& records) {
  std::vector<Table> tables;
  std::set<std::vector<std::string>> data, machines;
  std::set<std::string> notes;
  for (const Result& r : records.results) {
    if (!r.data.fingerprint.empty())
      data.insert({r.task, r.data.kind_or_real(), r.data.source,
                   r.data.split.empty() ? "–" : r.data.split, r.data.fingerprint});
    for (const std::string& note : r.data.notes) notes.insert(r.task + ": " + note);
  }
  const auto add = [&machines](const Machine& machine, const json& software) {
    machines.insert(
        {machine_text(machine), software.empty() ? "not recorded" : json_line(software)});
  };
  for (const Result& r : records.results) add(r.machine, r.software);
  for (const Profile& p : records.profiles) add(p.machine, p.software);
  for (const Where& w : records.where) add(w.machine, w.software);
  for (const Fidelity& f : records.fidelity) add(f.machine, f.software);
  if (!data.empty())
    tables.push_back({.title = "Data",
                      .columns = {{"task", Align::kLeft},
                                  {"kind", Align::kLeft},
                                  {"source", Align::kLeft},
                                  {"split", Align::kLeft},
                                  {"fingerprint", Align::kLeft}},
                      .rows = {data.begin(), data.end()},
                      .notes = {notes.begin(), notes.end()}});
  if (!machines.empty())
    tables.push_back({.title = "Machines and software",
                      .columns = {{"machine", Align::kLeft}, {"software", Align::kLeft}},
                      .rows = {machines.begin(), machines.end()}});
  return tables;
}

Table bad_files_table(const Records& records) {
  Table bad{.title = "Files left out, or in part",
            .columns = {{"file", Align::kLeft}, {"reason", Align::kLeft}}};
  for (const BadFile& file : records.bad) bad.rows.push_back({file.path, file.reason});
  return bad;
}

ReportTables report_tables(const Records& records) {
  ReportTables tables{.summary = summary_table(records),
                      .accuracy = accuracy_tables(records.results),
                      .differences = published_difference_tables(records.results),
                      .curves = majority_tables(records.results),
                      .regimes = {},
                      .training = training_tables(records.results),
                      .cost = memory_time_tables(records.profiles),
                      .detail = profile_tables(records.profiles),
                      .where = where_detail_tables(records.where, kMostOpsShown),
                      .fidelity = fidelity_tables(records.fidelity)};
  for (Table& table : difference_tables(records.results))
    tables.differences.push_back(std::move(table));
  if (!records.results.empty()) tables.regimes = other_regime_tables();
  return tables;
}

void number_notes(ReportTables& tables) {
  std::vector<Table*> all;
  for (std::vector<Table>* section :
       {&tables.accuracy, &tables.differences, &tables.curves, &tables.regimes, &tables.training,
        &tables.cost, &tables.detail, &tables.where, &tables.fidelity}) {
    for (Table& table : *section) all.push_back(&table);
  }
  tables.notes = gather_notes(all);
}

std::vector<Plot> report_plots(const Records& records) {
  std::vector<Plot> plots;
  for (std::vector<Plot> some : {score_plots(records.results), tradeoff_plots(records.results),
                                 curve_plots(records.results), profile_plots(records.profiles),
                                 where_plots(records.where), fidelity_plots(records.fidelity)}) {
    std::ranges::move(some, std::back_inserter(plots));
  }
  share_looks(plots);
  return plots;
}

std::map<std::string, std::string> make_report(const Records& records) {
  std::map<std::string, std::string> files;
  ReportTables tables = report_tables(records);
  const std::vector<Plot> plots = report_plots(records);
  for (const Plot& plot : plots) files[plot.name + kPlotScript] = plot_script(plot);
  if (!records.results.empty()) {
    files["accuracy.csv"] = to_csv(accuracy_long(records.results));
    files["accuracy.tex"] = accuracy_latex(records.results);
    if (!tables.differences.empty())
      files["differences.tex"] = wide_latex(tables.differences, "lra-differences");
    files["runs.csv"] = to_csv(results_long(records.results));
    if (!tables.training.empty()) {
      files["training.csv"] = to_csv(training_long(records.results));
      files["training.tex"] = wide_latex(tables.training, "lra-training");
    }
  }
  if (!records.profiles.empty()) {
    std::vector<Table> all = tables.cost;
    all.insert(all.end(), tables.detail.begin(), tables.detail.end());
    files["memory_time.csv"] = to_csv(memory_time_long(records.profiles));
    files["memory_time.tex"] = memory_time_latex(records.profiles);
    if (!tables.detail.empty())
      files["memory_time_detail.tex"] = wide_latex(tables.detail, "lra-memory-time");
    files["memory_time.json"] = json_line(tables_json(all)) + "\n";
  }
  if (!records.where.empty()) files["where.csv"] = to_csv(where_long(records.where));
  if (!records.fidelity.empty()) {
    files["fidelity.csv"] = to_csv(fidelity_long(records.fidelity));
    files["fidelity.tex"] = wide_latex(tables.fidelity, "lra-fidelity");
  }
  number_notes(tables);
  files[kReportFile] = markdown_report(records, tables, plots);
  return files;
}

std::string summary_text(const Records& records, size_t width) {
  const IntervalText form = width > 0 ? IntervalText::half_width : IntervalText::ends;
  std::vector<Table> accuracy = accuracy_tables(records.results), tables{summary_table(records)};
  const auto too_wide = [width](const Table& table) { return !fits(table, width); };
  if (width > 0 && std::ranges::any_of(accuracy, too_wide))
    accuracy = accuracy_tables(records.results, published(), form);
  const auto append = [&tables](std::vector<Table> some) {
    std::ranges::move(some, std::back_inserter(tables));
  };
  append(std::move(accuracy));
  std::vector<Table> cost = memory_time_tables(records.profiles);
  for (Table& table : cost) {
    if (!fits(table, width)) drop_published_rows(table);
    if (!fits(table, width)) drop_growth(table);
  }
  // A table that held published rows alone has nothing left.
  std::erase_if(cost, [](const Table& table) { return table.rows.empty(); });
  append(std::move(cost));
  append(where_group_tables(records.where));
  append(fidelity_tables(records.fidelity));
  if (tables.size() == 1) return "";
  std::vector<Table*> all;
  for (Table& table : tables) all.push_back(&table);
  const std::vector<std::string> notes = gather_notes(all);
  std::string text =
      joined(tables, [width](const Table& table) { return to_terminal(table, width); });
  return notes.empty() ? text : text + "\n" + notes_text(notes, width);
}

std::string bad_files_text(const Records& records) {
  std::string text;
  for (const BadFile& file : records.bad) text += one_line(file.path + ": " + file.reason) + "\n";
  return text;
}

}  // namespace lra
