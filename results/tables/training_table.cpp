// What training took, from results to tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
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

// The runs of a row that are ok; those that ended otherwise where there are no others.
std::vector<const Result*> costed(const std::vector<const Result*>& members) {
  std::vector<const Result*> ok;
  std::ranges::copy_if(members, std::back_inserter(ok),
                       [](const Result* r) { return r->status == Status::ok; });
  return ok.empty() ? members : ok;
}

bool is_noisy(const std::vector<const Result*>& members) {
  return std::ranges::any_of(costed(members), [](const Result* r) { return r->training.noisy(); });
}

std::vector<std::string> cost_row(const std::string& task, const std::string& name,
                                  const std::vector<const Result*>& members) {
  std::vector<double> speed, tokens, memory, parameters, steps, seconds;
  for (const Result* r : costed(members)) {
    if (r->training.steps_per_second) speed.push_back(*r->training.steps_per_second);
    if (r->training.tokens_per_second) tokens.push_back(*r->training.tokens_per_second);
    if (r->training.peak_memory_mib) memory.push_back(*r->training.peak_memory_mib);
    if (r->training.seconds) seconds.push_back(*r->training.seconds);
    if (r->parameters) parameters.push_back(static_cast<double>(*r->parameters));
    if (r->steps) steps.push_back(static_cast<double>(*r->steps));
  }
  std::set<std::string> statuses;
  for (const Result* r : members) statuses.insert(to_string(r->status));
  const std::string mark = is_noisy(members) ? "~" : "";
  return {task,
          name,
          mark + median_text(speed, "{:.3g}"),
          mark + median_text(tokens, "{:.0f}"),
          median_text(memory, "{:.1f}"),
          median_text(parameters, "{:.0f}"),
          median_text(steps, "{:.0f}"),
          median_text(seconds, "{:.0f}"),
          fmt::format("{}", fmt::join(statuses, ", "))};
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
      bool some_left_out = false, some_noisy = false;
      for (const auto& [key, members] : rows) {
        table.rows.push_back(cost_row(key.first, key.second, members));
        some_left_out |= costed(members).size() < members.size();
        some_noisy |= is_noisy(members);
      }
      if (some_noisy)
        table.notes.emplace_back(
            "~: others took more than 5 % of the processors' time while one of these runs trained");
      if (some_left_out)
        table.notes.emplace_back(
            "of an attention with a run that is ok the medians are those of such runs alone");
      tables.push_back(table);
    }
  }
  return tables;
}

}  // namespace lra
