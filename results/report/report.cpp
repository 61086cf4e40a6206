// Puts the tables of all records together.
#include "results/report/report.h"

#include <fmt/format.h>

#include <functional>
#include <set>

#include "results/print/terminal.h"
#include "results/records/json_line.h"
#include "results/records/store.h"
#include "results/tables/published_table.h"
#include "results/tables/run_plots.h"

namespace lra {
namespace {

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

// The long form of the training tables, which have the same columns each.
Table training_long(const std::vector<Table>& tables) {
  Table all{
      .title = "Training cost", .columns = {{"setting", Align::kLeft}}, .rows = {}, .notes = {}};
  for (const Table& table : tables) {
    if (all.columns.size() == 1)
      all.columns.insert(all.columns.end(), table.columns.begin(), table.columns.end());
    for (const auto& row : table.rows) {
      all.rows.push_back({table.title});
      for (const std::string& cell : row) all.rows.back().push_back(cell == "–" ? "" : cell);
    }
  }
  return all;
}

}  // namespace

std::string counts_text(const Records& records) {
  return fmt::format("{} runs, {} profile cells, {} fidelity cells.", records.results.size(),
                     records.profiles.size(), records.fidelity.size());
}

std::vector<Table> provenance_tables(const Records& records) {
  std::vector<Table> tables;
  std::set<std::vector<std::string>> data, machines;
  std::set<std::string> notes;
  for (const Result& r : records.results) {
    if (!r.data.fingerprint.empty())
      data.insert({r.task, r.data.synthetic ? "synthetic stand-in" : "real", r.data.source,
                   r.data.split.empty() ? "–" : r.data.split, r.data.fingerprint});
    for (const json& note : r.data.notes) notes.insert(r.task + ": " + note.get<std::string>());
  }
  const auto add = [&machines](const Machine& machine, const json& software) {
    machines.insert(
        {machine_text(machine), software.empty() ? "not recorded" : json_line(software)});
  };
  for (const Result& r : records.results) add(r.machine, r.software);
  for (const Profile& p : records.profiles) add(p.machine, p.software);
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
                      .rows = {machines.begin(), machines.end()},
                      .notes = {}});
  return tables;
}

Table bad_files_table(const Records& records) {
  Table bad{.title = "Files left out, or in part",
            .columns = {{"file", Align::kLeft}, {"reason", Align::kLeft}},
            .rows = {},
            .notes = {}};
  for (const BadFile& file : records.bad) bad.rows.push_back({file.path, file.reason});
  return bad;
}

std::map<std::string, std::string> make_report(const Records& records) {
  std::map<std::string, std::string> files;
  std::string report = fmt::format("# Report\n\n{}\n", counts_text(records));
  const auto add_plots = [&](const std::map<std::string, std::string>& plots) {
    if (!plots.empty()) report += "\nPlots, where gnuplot has made them of the .gp files:\n\n";
    for (const auto& [name, script] : plots) {
      files[name + kPlotScript] = script;
      report += fmt::format("![{0}]({0}.svg)\n", name);
    }
  };
  const auto section = [&report](const char* title, const std::vector<Table>& tables) {
    if (!tables.empty()) report += fmt::format("\n## {}\n\n{}", title, joined(tables, to_markdown));
  };
  if (!records.results.empty()) {
    const std::vector<Table> accuracy = accuracy_tables(records.results);
    const std::vector<Table> training = training_tables(records.results);
    std::vector<Table> differences = published_difference_tables(records.results);
    for (Table& table : difference_tables(records.results)) differences.push_back(std::move(table));
    section("Accuracy", accuracy);
    section("Differences in accuracy", differences);
    section("Published under other regimes", other_regime_tables());
    std::map<std::string, std::string> plots;
    for (const Plot& plot : tradeoff_plots(records.results)) plots[plot.name] = plot_script(plot);
    for (const Plot& plot : curve_plots(records.results)) plots[plot.name] = plot_script(plot);
    add_plots(plots);
    section("Training cost", training);
    files["accuracy.csv"] = to_csv(accuracy_long(records.results));
    files["accuracy.tex"] = joined(accuracy, to_latex);
    if (!differences.empty()) files["differences.tex"] = joined(differences, to_latex);
    files["runs.csv"] = to_csv(results_long(records.results));
    if (!training.empty()) {
      files["training.csv"] = to_csv(training_long(training));
      files["training.tex"] = joined(training, to_latex);
    }
  }
  if (!records.profiles.empty()) {
    std::vector<Table> cost = memory_time_tables(records.profiles);
    const std::vector<Table> detail = profile_tables(records.profiles);
    section("Memory and time", cost);
    add_plots(profile_plots(records.profiles));
    section("Memory and time in detail", detail);
    cost.insert(cost.end(), detail.begin(), detail.end());
    files["memory_time.csv"] = to_csv(memory_time_long(records.profiles));
    files["memory_time.tex"] = joined(cost, to_latex);
    files["memory_time.json"] = json_line(tables_json(cost)) + "\n";
  }
  if (!records.fidelity.empty()) {
    const std::vector<Table> fidelity = fidelity_tables(records.fidelity);
    section("Fidelity to softmax attention", fidelity);
    files["fidelity.csv"] = to_csv(fidelity_long(records.fidelity));
    files["fidelity.tex"] = joined(fidelity, to_latex);
    add_plots(fidelity_plots(records.fidelity));
  }
  section("Provenance", provenance_tables(records));
  if (!records.bad.empty()) section("Files that could not be used", {bad_files_table(records)});
  files["report.md"] = report;
  return files;
}

std::string summary_text(const Records& records, size_t width) {
  std::vector<Table> tables = accuracy_tables(records.results);
  for (Table& table : memory_time_tables(records.profiles)) tables.push_back(std::move(table));
  for (Table& table : fidelity_tables(records.fidelity)) tables.push_back(std::move(table));
  return joined(tables, [width](const Table& table) { return to_terminal(table, width); });
}

std::string bad_files_text(const Records& records) {
  std::string text;
  for (const BadFile& file : records.bad) text += one_line(file.path + ": " + file.reason) + "\n";
  return text;
}

}  // namespace lra
