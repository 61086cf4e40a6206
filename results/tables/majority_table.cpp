// Runs that never left the majority class, from results to tables.
#include <fmt/format.h>

#include <algorithm>

#include "results/analysis/recipes.h"
#include "results/analysis/run_names.h"
#include "results/tables/accuracy_table.h"

namespace lra {

std::vector<Table> majority_tables(std::span<const Result> results) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    Table table{.title = "Never left the majority class: " + recipe_title(group),
                .columns = {{"task", Align::kLeft},
                            {"attention", Align::kLeft},
                            {"seed"},
                            {"run", Align::kLeft},
                            {"steps"},
                            {"dev %"},
                            {"most frequent label of dev %"}}};
    const auto names = row_names(group);
    for (const Result* r : group.results) {
      if (!r->never_left_majority()) continue;
      const std::string folder = given_name(*r);
      table.rows.push_back({r->task, names.at(r), fmt::format("{}", r->seed),
                            folder.empty() ? "–" : folder,
                            r->steps ? fmt::format("{}", *r->steps) : "–",
                            fmt::format("{:.2f}", 100 * r->dev->accuracy),
                            fmt::format("{:.2f}", 100 * *r->data.dev_baseline())});
    }
    if (table.rows.empty()) continue;
    std::ranges::sort(table.rows);
    const auto known = std::ranges::count_if(
        group.results, [](const Result* r) { return r->dev && r->data.dev_majority; });
    const auto unknown = std::ssize(group.results) - known;
    table.notes.push_back(fmt::format(
        "WARNING: {} of {} runs{} never left the majority class: dev's 95 % interval did "
        "not stay above its most frequent label, or those of its samples; their accuracies "
        "say nothing of the attention",
        table.rows.size(), known,
        unknown > 0 ? fmt::format(" ({} more do not say)", unknown) : ""));
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace lra
