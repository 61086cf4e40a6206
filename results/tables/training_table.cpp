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

// A row: medians, where a run says them.
struct TrainingRow {
  std::string task, name;
  std::optional<double> speed, tokens, memory, parameters, steps, seconds;
  std::string statuses;
  bool noisy = false, some_left_out = false;
  std::optional<stats::Interval>
      speeds;  // least and greatest, where seeds differ by more than 10 %
};

TrainingRow row_of_runs(const std::string& task, const std::string& name,
                        const std::vector<const Result*>& members) {
  std::vector<double> speed, tokens, memory, parameters, steps, seconds;
  const std::vector<const Result*> runs = costed(members);
  for (const Result* r : runs) {
    if (r->training.steps_per_second) speed.push_back(*r->training.steps_per_second);
    if (r->training.tokens_per_second) tokens.push_back(*r->training.tokens_per_second);
    if (r->training.peak_memory_mib) memory.push_back(*r->training.peak_memory_mib);
    // Of a run that went on elsewhere the time is of both.
    if (r->training.seconds && r->training.measured_from == 0)
      seconds.push_back(*r->training.seconds);
    if (r->parameters) parameters.push_back(static_cast<double>(*r->parameters));
    if (r->steps) steps.push_back(static_cast<double>(*r->steps));
  }
  std::set<std::string> statuses;
  for (const Result* r : members) statuses.insert(to_string(r->status));
  const auto median = [](const std::vector<double>& values) {
    return values.empty() ? std::nullopt : std::optional(stats::quantile(values, 0.5));
  };
  std::optional<stats::Interval> speeds;
  if (!speed.empty()) {
    const auto [least, greatest] = std::ranges::minmax(speed);
    if (greatest > 1.1 * least) speeds = stats::Interval{least, greatest};
  }
  return {.task = task,
          .name = name,
          .speed = median(speed),
          .tokens = median(tokens),
          .memory = median(memory),
          .parameters = median(parameters),
          .steps = median(steps),
          .seconds = median(seconds),
          .statuses = fmt::format("{}", fmt::join(statuses, ", ")),
          .noisy = is_noisy(members),
          .some_left_out = runs.size() < members.size(),
          .speeds = speeds};
}

std::string rounded(std::optional<double> value, const char* format) {
  if (!value) return "–";
  // A digit for every power of ten would make the table too wide.
  return *value < 1e15 ? fmt::format(fmt::runtime(format), *value) : short_number(*value);
}

std::vector<std::string> rounded_row(const TrainingRow& costs) {
  const std::string mark = costs.noisy ? "~" : "";
  return {
      costs.task,
      costs.name,
      mark + rounded(costs.speed, "{:.3g}") +
          (costs.speeds ? fmt::format(" [{:.3g}, {:.3g}]", costs.speeds->low, costs.speeds->high)
                        : ""),
      mark + rounded(costs.tokens, "{:.0f}"),
      rounded(costs.memory, "{:.1f}"),
      rounded(costs.parameters, "{:.0f}"),
      rounded(costs.steps, "{:.0f}"),
      rounded(costs.seconds, "{:.0f}"),
      costs.statuses};
}

std::vector<Column> cost_columns() {
  return {{"task", Align::kLeft},
          {"attention", Align::kLeft},
          {"steps/s"},
          {"tokens/s"},
          {"peak memory MiB"},
          {"parameters"},
          {"steps"},
          {"seconds"},
          {"status", Align::kLeft}};
}

// The rows of one recipe on one machine.
struct MachineCosts {
  std::string title;
  std::vector<TrainingRow> rows;
  std::vector<std::string> notes;  // on what does not compare
};

std::vector<std::string> notes_on(const std::vector<const Result*>& runs) {
  std::vector<std::string> notes;
  if (const std::string mixed = mixed_programs(runs); !mixed.empty())
    notes.push_back("not all trained by one program: " + mixed);
  for (const Result* r : runs) {
    if (r->training.measured_from > 0)
      notes.push_back(
          fmt::format("{} went on here at step {}: its speed and memory are of the steps from "
                      "there on, and the "
                      "seconds of the whole, in part of another machine or setting or of a pause, "
                      "are not given",
                      r->path, r->training.measured_from));
  }
  if (mixed_peaks(runs))
    notes.emplace_back("peaks of some of these runs hold evaluations, as older records have it");
  return notes;
}

std::vector<MachineCosts> machine_costs(const RecipeGroup& group) {
  const auto names = row_names(group);
  std::map<std::string, std::map<std::pair<std::string, std::string>, std::vector<const Result*>>>
      machines;
  for (const Result* r : group.results) {
    if (!r->training.steps_per_second && !r->training.peak_memory_mib && !r->parameters) continue;
    auto& runs = machines[machine_setting_text(*r)][{r->task, names.at(r)}];
    const auto repeated = [r](const Result* other) {
      return other->seed == r->seed && other->status == r->status;
    };
    if (std::ranges::none_of(runs, repeated)) runs.push_back(r);
  }
  std::vector<MachineCosts> all;
  for (const auto& [machine, rows] : machines) {
    all.push_back({.title = fmt::format("Training cost: {}, on {}", recipe_title(group), machine)});
    std::vector<const Result*> runs;
    for (const auto& [key, members] : rows) {
      all.back().rows.push_back(row_of_runs(key.first, key.second, members));
      runs.insert(runs.end(), members.begin(), members.end());
    }
    all.back().notes = notes_on(runs);
  }
  return all;
}

}  // namespace

std::vector<Table> training_tables(std::span<const Result> results) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    for (const MachineCosts& machine : machine_costs(group)) {
      Table table{
          .title = machine.title,
          .columns = cost_columns(),
          .notes = {"medians over the seeds; peak memory is the highest sum of live tensor bytes"}};
      if (!group.synthetic.empty())
        table.notes.push_back(
            fmt::format("synthetic: stand-in data of {}", fmt::join(group.synthetic, ", ")));
      for (std::string& note : recipe_notes(group, task_order(group, {})))
        table.notes.push_back(std::move(note));
      for (const TrainingRow& costs : machine.rows) table.rows.push_back(rounded_row(costs));
      table.notes.insert(table.notes.end(), machine.notes.begin(), machine.notes.end());
      if (std::ranges::any_of(machine.rows,
                              [](const TrainingRow& row) { return row.speeds.has_value(); }))
        table.notes.emplace_back(
            "[least, greatest] steps/s over the seeds, where they differ by more than 10 %");
      if (std::ranges::any_of(machine.rows, &TrainingRow::noisy))
        table.notes.emplace_back(
            "~: others took more than 5 % of the processors' time while one of these runs trained");
      if (std::ranges::any_of(machine.rows, &TrainingRow::some_left_out))
        table.notes.emplace_back(
            "of an attention with a run that is ok the medians are those of such runs alone");
      tables.push_back(table);
    }
  }
  return tables;
}

Table training_long(std::span<const Result> results) {
  Table all{.title = "Training cost", .columns = {{"setting", Align::kLeft}}};
  std::ranges::copy(cost_columns(), std::back_inserter(all.columns));
  all.columns.push_back({"noisy"});
  all.columns.push_back({"recipe"});
  for (const RecipeGroup& group : group_by_recipe(results)) {
    for (const MachineCosts& machine : machine_costs(group)) {
      for (const TrainingRow& costs : machine.rows)
        all.rows.push_back({machine.title, costs.task, costs.name, exact_number(costs.speed),
                            exact_number(costs.tokens), exact_number(costs.memory),
                            exact_number(costs.parameters), exact_number(costs.steps),
                            exact_number(costs.seconds), costs.statuses,
                            costs.noisy ? "true" : "false", fmt::format("{}", group.number)});
    }
  }
  return all;
}

}  // namespace lra
