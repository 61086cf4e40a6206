#include "results/tables/published_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace lra {
namespace {

// The tasks that some papers leave out, Path-X: an average is of nothing without saying whether
// they are in it.
const std::vector<std::string>& optional_tasks() {
  static const std::vector<std::string> tasks = [] {
    std::map<std::string, size_t> papers;
    size_t all = 0;
    for (const Published& reference : published()) {
      if (!reference.accuracy) continue;
      ++all;
      for (const std::string& task : reference.accuracy->tasks) ++papers[task];
    }
    std::vector<std::string> some;
    for (const auto& [task, count] : papers) {
      if (count < all) some.push_back(task);
    }
    return some;
  }();
  return tasks;
}

std::optional<double> value_of(const PublishedAccuracy& accuracy, const PublishedAccuracy::Row& row,
                               const std::string& task) {
  const auto at = std::ranges::find(accuracy.tasks, task) - accuracy.tasks.begin();
  return at < std::ssize(accuracy.tasks) ? row.values[static_cast<size_t>(at)] : std::nullopt;
}

// Which tasks the printed average is of: "6 tasks, with pathx".
std::string average_of(const PublishedAccuracy& accuracy, const PublishedAccuracy::Row& row) {
  if (!row.average) return "–";
  const auto tasks = std::ranges::count_if(row.values, [](const auto& v) { return v.has_value(); });
  std::string text = fmt::format("{} tasks", tasks);
  for (const std::string& task : optional_tasks())
    text += fmt::format(", {} {}", value_of(accuracy, row, task) ? "with" : "without", task);
  return text;
}

bool stands_apart(const Published& reference, Regime regime) {
  return reference.accuracy && reference.accuracy->protocols.empty() &&
         reference.accuracy->regime == regime;
}

void append_rows(const PublishedAccuracy& accuracy, const std::string& set,
                 const std::vector<std::string>& tasks, Table& table) {
  for (const PublishedAccuracy::Row& row : accuracy.rows) {
    std::vector<std::string> cells{row.name};
    for (const std::string& task : tasks)
      cells.push_back(as_percent(value_of(accuracy, row, task)));
    cells.push_back(as_percent(row.average));
    cells.push_back(average_of(accuracy, row));
    cells.push_back(set);
    table.rows.push_back(std::move(cells));
  }
}

void note_provenance(const Published& reference, std::vector<std::string>& notes) {
  const PublishedAccuracy& accuracy = *reference.accuracy;
  notes.push_back(fmt::format("published: {}, {}, {}; {}, made by {}", reference.paper,
                              accuracy.table, accuracy.version, accuracy.regime, accuracy.made_by));
  if (!accuracy.recipe.empty())
    notes.push_back(fmt::format("recipe of {}: {}", reference.name, accuracy.recipe));
  for (const std::string& slip : accuracy.slips)
    notes.push_back(fmt::format("slip in {}: {}", reference.name, slip));
  for (const std::string& note : accuracy.notes)
    notes.push_back(fmt::format("{}: {}", reference.name, note));
}

}  // namespace

void note_beside(const Published& reference, const std::string& protocol,
                 std::vector<std::string>& notes) {
  note_provenance(reference, notes);
  const auto& differences = reference.accuracy->differences;
  if (const auto it = differences.find(protocol); it != differences.end())
    notes.push_back(fmt::format("difference of protocol, {} against {}: {}", protocol,
                                reference.name, it->second));
}

void note_released_forms(const Published& reference, std::span<const Result* const> results,
                         std::vector<std::string>& notes) {
  std::set<std::string> texts;
  for (const Result* r : results) {
    const PublishedAccuracy::Row* row = reference.accuracy->row(r->attention);
    if (row == nullptr || row->released_form != r->attention.name) continue;
    texts.insert(fmt::format("{}: what the released code calls {}, beside the published row {}",
                             row->released_form, row->variant->name, row->name));
  }
  notes.insert(notes.end(), texts.begin(), texts.end());
}

std::vector<Table> other_regime_tables(std::span<const Published> references) {
  std::vector<Table> tables;
  for (const Regime regime : all_values<Regime>()) {
    Table table{.title = fmt::format("Published accuracies of the regime \"{}\", which no run here "
                                     "follows: no intervals, not comparable",
                                     regime),
                .columns = {{"model", Align::kLeft}}};
    std::vector<std::string> tasks;
    for (const Published& reference : references) {
      if (!stands_apart(reference, regime)) continue;
      for (const std::string& task : reference.accuracy->tasks) {
        if (std::ranges::count(tasks, task) == 0) tasks.push_back(task);
      }
    }
    for (const std::string& task : tasks) table.columns.push_back({task + " %", Align::kRight});
    table.columns.push_back({"average", Align::kRight});
    table.columns.push_back({"average of", Align::kLeft});
    table.columns.push_back({"set", Align::kLeft});
    for (const Published& reference : references) {
      if (!stands_apart(reference, regime)) continue;
      append_rows(*reference.accuracy, reference.name, tasks, table);
      note_provenance(reference, table.notes);
    }
    if (!table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace lra
