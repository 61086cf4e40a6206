// Groups results by recipe, with the published numbers of the same recipe below each attention.
#include "results/tables/accuracy_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/recipes.h"
#include "results/statistics/statistics.h"
#include "results/tables/accuracy_notes.h"

namespace lra {
namespace {

bool is_warning(const std::string& note) { return note.starts_with("WARNING"); }

// An average over all tasks, "" where a task is missing.
std::optional<stats::Estimate> average_of(const std::vector<stats::Estimate>& tasks,
                                          size_t tasks_in_all) {
  if (tasks.empty() || tasks.size() < tasks_in_all) return std::nullopt;
  return stats::mean_of_independent(tasks);
}

// "37.05 [34.96, 39.19]" or "37.05±2.1".
std::string with_interval(const stats::Estimate& estimate, IntervalText form) {
  if (form == IntervalText::ends)
    return fmt::format("{:.2f} [{:.2f}, {:.2f}]", estimate.value, estimate.ci95.low,
                       estimate.ci95.high);
  const double side =
      std::max(estimate.value - estimate.ci95.low, estimate.ci95.high - estimate.value);
  return fmt::format("{:.2f}±{:.{}f}", estimate.value, side, side < 0.1 ? 2 : 1);
}

std::string cell_text(const AccuracyCell& cell, IntervalText form) {
  if (form == IntervalText::ends || cell.ok.empty()) return cell.text();
  const LearnedCount count = cell.learned_count();
  std::string text = with_interval(cell.estimate(), form);
  if (!cell.other.empty()) text += kFailedMark;
  if (count.learned == 0) text += kUnlearnedMark;
  if (cell.ok.size() > 1) text += fmt::format(" n={}", cell.ok.size());
  if (count.mixed())
    text += fmt::format(" ({}: {:.2f})", count.text(), cell.learned_only().percent());
  return text;
}

// One recipe's table while its rows are added.
class AccuracyRows {
 public:
  AccuracyRows(const RecipeGroup& group, const std::vector<std::string>& tasks, IntervalText form,
               Table& table)
      : group_(group), tasks_(tasks), cells_(accuracy_cells(group)), form_(form), table_(table) {}

  const AccuracyCells& cells() const { return cells_; }

  void add_attention(const std::string& name) {
    std::vector<std::string> row{name};
    std::vector<stats::Estimate> estimates;
    bool ranked = true;  // all learned, with seeds as the others have them
    for (size_t c = 0; c < tasks_.size(); ++c) {
      const auto it = cells_.find({name, tasks_[c]});
      row.push_back(it == cells_.end() ? "–" : cell_text(it->second, form_));
      if (it == cells_.end() || it->second.ok.empty()) continue;
      estimates.push_back(it->second.estimate());
      const bool highest =
          it->second.learned_count().all() && !is_lone_seed(cells_, name, tasks_[c]);
      ranked &= highest;
      if (highest) values_[c + 1].emplace_back(estimates.back().value, table_.rows.size());
    }
    if (tasks_.size() > 1) {
      const auto average = average_of(estimates, tasks_.size());
      row.push_back(average ? with_interval(*average, form_) : "–");
      if (average && ranked)
        values_[tasks_.size() + 1].emplace_back(average->value, table_.rows.size());
    }
    table_.rows.push_back(std::move(row));
  }

  // Below the attention's own row; nothing where none of its numbers is published.
  void add_published(const std::string& name, const Published& reference,
                     const AttentionRecord& attention) {
    std::vector<std::string> row{name + kPublishedRow};
    size_t values = 0;
    for (const std::string& task : tasks_) {
      const std::optional<double> value =
          group_.has_other_data(task) ? std::nullopt : reference.accuracy->value(task, attention);
      row.push_back(as_percent(value));
      if (value) ++values;
    }
    if (values == 0) return;
    // As printed: of all tasks of the paper, or of none.
    const bool all = values == tasks_.size() && values == reference.accuracy->tasks.size();
    if (tasks_.size() > 1)
      row.push_back(as_percent(all ? reference.accuracy->row(attention)->average : std::nullopt));
    table_.rows.push_back(std::move(row));
  }

  void add_baseline(const char* name, std::optional<double> Baseline::*which) {
    std::vector<std::string> row{name};
    bool any = false;
    for (const std::string& task : tasks_) {
      const std::optional<double> percent = baseline_of(group_, task).*which;
      any |= percent.has_value();
      row.push_back(as_percent(percent));
    }
    if (any) table_.rows.push_back(std::move(row));
  }

  // The highest of each column, but for what was not learned, where there are several attentions.
  void mark_best() {
    std::set<std::string> attentions;
    for (const auto& [key, cell] : cells_) attentions.insert(key.first);
    for (const auto& [column, values] : values_) {
      if (attentions.size() < 2) continue;
      const double best = std::ranges::max(values).first;
      for (const auto& [value, row] : values) {
        if (value == best) table_.bold.emplace(row, column);
      }
    }
  }

 private:
  const RecipeGroup& group_;
  const std::vector<std::string>& tasks_;
  const AccuracyCells cells_;
  const IntervalText form_;
  Table& table_;
  std::map<size_t, std::vector<std::pair<double, size_t>>> values_;  // column -> (value, row)
};

}  // namespace

std::vector<Table> accuracy_tables(std::span<const Result> results,
                                   std::span<const Published> references, IntervalText form) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const std::vector<std::string> tasks = task_order(group, references);
    const Published* reference = nearest(group, references);
    Table table{.title = "Accuracy: " + recipe_title(group),
                .columns = {{"attention", Align::kLeft}}};
    const bool mixed = !group.synthetic.empty() && group.synthetic.size() < tasks.size();
    for (const std::string& task : tasks) {
      const bool stand_in = mixed && group.synthetic.contains(task);
      table.columns.push_back({task + (stand_in ? kStandInMark : "") + " %", Align::kRight});
    }
    if (tasks.size() > 1)
      table.columns.push_back(
          {fmt::format("average of {}{}", tasks.size(), mixed ? kStandInMark : ""), Align::kRight});

    AccuracyRows rows(group, tasks, form, table);
    table.notes = accuracy_notes(group, rows.cells(), tasks, reference);
    if (form == IntervalText::half_width)
      table.notes.insert(std::ranges::find_if_not(table.notes, is_warning),
                         "±: the longer side of the 95 % interval");
    std::map<std::string, const Result*> names;  // of rows -> any of its results
    for (const auto& [r, name] : row_names(group)) names.try_emplace(name, r);
    for (const auto& [name, any] : names) {
      rows.add_attention(name);
      if (reference != nullptr && shows_published(group))
        rows.add_published(name, *reference, any->attention);
    }
    rows.mark_best();
    rows.add_baseline("(most frequent label)", &Baseline::majority);
    rows.add_baseline("(most frequent label of each sample)", &Baseline::sample_majority);
    rows.add_baseline("(chance)", &Baseline::chance);
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace lra
