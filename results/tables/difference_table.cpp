// Differences of accuracies: to the best of a table, and to the published numbers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/standings.h"
#include "results/tables/accuracy_notes.h"
#include "results/tables/accuracy_table.h"
#include "results/tables/published_table.h"

namespace lra {
namespace {

std::string interval_text(const std::optional<stats::Interval>& ci) {
  return ci ? fmt::format("[{:+.2f}, {:+.2f}]", ci->low, ci->high) : "–";
}

std::string p_text(std::optional<double> p) {
  if (!p) return "–";
  return *p < 0.0001 ? "< 0.0001" : fmt::format("{:.4f}", *p);
}

std::string ok_and_diverged(const AccuracyCell& cell) {
  std::string text = fmt::format("{}", cell.ok.size());
  if (cell.diverged > 0) text += fmt::format(" ({} diverged)", cell.diverged);
  return text;
}

}  // namespace

std::vector<Table> difference_tables(std::span<const Result> results,
                                     std::span<const Published> references) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const std::vector<std::string> tasks = task_order(group, references);
    const AccuracyCells cells = accuracy_cells(group);
    const std::vector<Standing> all = standings(cells);
    if (all.empty()) continue;
    Table table{.title = "Differences to the best: " + recipe_title(group),
                .columns = {{"task", Align::kLeft},
                            {"attention", Align::kLeft},
                            {"seeds"},
                            {"mean %"},
                            {"sd over seeds"},
                            {"to the best"},
                            {"95 % interval"},
                            {"test", Align::kLeft},
                            {"p"},
                            {"p (Holm)"},
                            {"verdict", Align::kLeft}},
                .notes = {fmt::format(
                    "differences in percentage points, tested at {:g} %; intervals: paired "
                    "bootstrap of single runs' predictions, where they differ on {} examples or "
                    "more, or Welch's of seeds; the best was "
                    "chosen by these numbers, so that its lead is flattered",
                    100 * kSignificance, kLeastDiffering)}};
    if (std::ranges::any_of(cells, [](const auto& entry) { return entry.second.diverged > 0; }))
      table.notes.emplace_back(
          "a seed that diverged did not learn the task: an attention with one is never the best, "
          "its mean is that of the others alone, and in ranks such a seed is below all");
    for (std::string& note : recipe_notes(group, tasks)) table.notes.push_back(std::move(note));
    for (const std::string& task : tasks) {
      for (const Standing& s : all) {
        if (s.task != task) continue;
        const AccuracyCell& cell = cells.at({s.row, s.task});
        const auto sd = cell.sd();
        const bool best = s.place == Standing::Place::best;
        table.rows.push_back({s.task, s.row, ok_and_diverged(cell),
                              cell.ok.empty() ? "–" : fmt::format("{:.2f}", cell.percent()),
                              sd ? fmt::format("{:.2f}", *sd) : "–",
                              best || !s.difference ? "–" : fmt::format("{:+.2f}", *s.difference),
                              interval_text(s.ci95), s.test.empty() ? "–" : s.test, p_text(s.p),
                              p_text(s.adjusted), s.text()});
      }
    }
    tables.push_back(table);
  }
  return tables;
}

std::vector<Table> published_difference_tables(std::span<const Result> results,
                                               std::span<const Published> references) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const Published* reference = nearest(group, references);
    const bool of_tokens = !group.results.empty() && !group.results.front()->metric.empty();
    if (reference == nullptr || of_tokens) continue;
    const std::vector<std::string> tasks = task_order(group, references);
    Table table{.title = "Beside the published numbers: " + recipe_title(group),
                .columns = {{"task", Align::kLeft},
                            {"attention", Align::kLeft},
                            {"here %"},
                            {"published %"},
                            {"difference"},
                            {"published is", Align::kLeft}}};
    note_beside(*reference, group.protocol, table.notes);
    note_released_forms(*reference, group.results, table.notes);
    table.notes.emplace_back(
        "the interval is that of the runs here: how far another run of the paper's would fall "
        "from its number is not known");
    for (std::string& note : recipe_notes(group, tasks)) table.notes.push_back(std::move(note));
    const auto other = [&group](const std::string& task) { return group.has_other_data(task); };
    if (std::ranges::any_of(tasks, other) || !shows_published(group)) {
      table.title += ", not the published recipe or data";
      table.notes.emplace_back(
          "not the published recipe or data: the difference says nothing about either");
    }
    const AccuracyCells cells = accuracy_cells(group);
    for (const std::string& task : tasks) {
      for (const auto& [key, cell] : cells) {
        // With no published number is a stand-in comparable.
        if (key.second != task || cell.ok.empty() || group.synthetic.contains(task)) continue;
        const auto value = reference->accuracy->value(task, cell.ok[0]->attention);
        if (!value) continue;
        const stats::Interval ci = cell.interval();
        const bool comparable = !other(task) && shows_published(group);
        table.rows.push_back({task, key.first, cell.text(), fmt::format("{:.2f}", *value),
                              fmt::format("{:+.2f}", cell.percent() - *value),
                              !comparable        ? "of another recipe or data"
                              : *value < ci.low  ? "below the interval"
                              : *value > ci.high ? "above the interval"
                                                 : "within the interval"});
      }
    }
    if (!table.rows.empty()) tables.push_back(table);
  }
  return tables;
}

}  // namespace lra
