// What training took, from results to tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "results/analysis/accuracy_cells.h"
#include "results/statistics/statistics.h"
#include "results/tables/accuracy_table.h"

namespace lra {
namespace {

std::string median_text(const std::vector<double>& values, const char* format) {
  if (values.empty()) return "–";
  const double median = stats::quantile(values, 0.5);
  // A digit for every power of ten would make the table too wide.
  return median < 1e15 ? fmt::format(fmt::runtime(format), median) : short_number(median);
}

}  // namespace

std::vector<Table> training_tables(std::span<const Result> results) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const std::vector<std::string> tasks = task_order(group, {});
    const auto names = row_names(group);
    std::map<std::string, std::map<std::pair<std::string, std::string>, std::vector<const Result*>>>
        machines;
    for (const Result* r : group.results) {
      if (r->training.steps_per_second || r->training.peak_memory_mib || r->parameters) {
        auto& runs = machines[machine_setting_text(*r)][{r->task, names.at(r)}];
        const auto repeated = [r](const Result* other) {
          return other->seed == r->seed && other->status == r->status;
        };
        if (std::ranges::none_of(runs, repeated)) runs.push_back(r);
      }
    }
    for (const auto& [machine, rows] : machines) {
      Table table{
          .title = fmt::format("Training cost: {}, on {}", recipe_title(group), machine),
          .columns = {{"task", Align::kLeft},
                      {"attention", Align::kLeft},
                      {"steps/s"},
                      {"tokens/s"},
                      {"peak memory MiB"},
                      {"parameters"},
                      {"steps"},
                      {"seconds"},
                      {"status", Align::kLeft}},
          .rows = {},
          .notes = {"medians over the seeds; peak memory is the highest sum of live tensor bytes"}};
      if (!group.synthetic.empty())
        table.notes.push_back(
            fmt::format("synthetic: stand-in data of {}", fmt::join(group.synthetic, ", ")));
      for (std::string& note : recipe_notes(group, tasks)) table.notes.push_back(std::move(note));
      for (const auto& [key, members] : rows) {
        std::vector<double> speed, tokens, memory, parameters, steps, seconds;
        std::set<std::string> statuses;
        for (const Result* r : members) {
          if (r->training.steps_per_second) speed.push_back(*r->training.steps_per_second);
          if (r->training.tokens_per_second) tokens.push_back(*r->training.tokens_per_second);
          if (r->training.peak_memory_mib) memory.push_back(*r->training.peak_memory_mib);
          if (r->training.seconds) seconds.push_back(*r->training.seconds);
          if (r->parameters) parameters.push_back(static_cast<double>(*r->parameters));
          if (r->steps) steps.push_back(static_cast<double>(*r->steps));
          statuses.insert(to_string(r->status));
        }
        table.rows.push_back({key.first, key.second, median_text(speed, "{:.3g}"),
                              median_text(tokens, "{:.0f}"), median_text(memory, "{:.1f}"),
                              median_text(parameters, "{:.0f}"), median_text(steps, "{:.0f}"),
                              median_text(seconds, "{:.0f}"),
                              fmt::format("{}", fmt::join(statuses, ", "))});
      }
      tables.push_back(table);
    }
  }
  return tables;
}

}  // namespace lra
