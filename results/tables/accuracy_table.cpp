// Groups results by recipe and prints them beside the published numbers.
#include "results/tables/accuracy_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/recipes.h"
#include "results/analysis/standings.h"
#include "results/statistics/statistics.h"
#include "results/tables/contract_notes.h"
#include "results/tables/published_table.h"

namespace lra {
namespace {

// Which rows of a task did not learn it, and in how many of their seeds.
void note_unlearned(const RecipeGroup& group, const AccuracyCells& cells, const std::string& task,
                    std::vector<std::string>& notes) {
  const Baseline baseline = baseline_of(group, task);
  std::vector<std::string> rows;
  for (const auto& [key, cell] : cells) {
    if (key.second != task) continue;
    const auto failed =
        std::ranges::count_if(cell.ok, [&](const Result* r) { return !learned(*r, baseline); });
    if (failed == 0) continue;
    rows.push_back(cell.ok.size() == 1
                       ? key.first
                       : fmt::format("{} ({} of {} seeds)", key.first, failed, cell.ok.size()));
  }
  if (rows.empty()) return;
  const bool chance = baseline.majority.value_or(0) < baseline.chance.value_or(0);
  notes.push_back(fmt::format(
      "WARNING: {} was not learned by {}: the interval reaches down to {} ({:.2f} %)", task,
      fmt::join(rows, ", "), chance ? "chance" : "the most frequent label", *baseline.highest()));
}

// Which rows are not distinguishable from the best of a task.
void note_standing(const std::vector<Standing>& all, const std::string& task,
                   std::vector<std::string>& notes) {
  std::string best;
  std::vector<std::string> indistinguishable, below, untested;
  for (const Standing& standing : all) {
    if (standing.task != task) continue;
    if (standing.place == Standing::Place::best) best = standing.row;
    if (standing.place == Standing::Place::indistinguishable)
      indistinguishable.push_back(standing.row);
    if (standing.place == Standing::Place::below) below.push_back(standing.row);
    if (standing.place == Standing::Place::untested)
      untested.push_back(fmt::format("{} ({})", standing.row, standing.reason));
  }
  if (best.empty()) return;
  std::string text = fmt::format("{}: best {}", task, best);
  if (!indistinguishable.empty())
    text += fmt::format("; not distinguishable from it: {}", fmt::join(indistinguishable, ", "));
  if (!below.empty()) text += fmt::format("; below it: {}", fmt::join(below, ", "));
  if (!untested.empty()) text += fmt::format("; not tested: {}", fmt::join(untested, ", "));
  notes.push_back(text);
}

// What the runs are, whatever they are compared with.
void note_runs(const RecipeGroup& group, const AccuracyCells& cells,
               std::vector<std::string>& notes) {
  bool single = false, several = false, repeated = false;
  std::map<std::string, std::set<std::string>> sources;  // of what is not generated, by task
  for (const auto& [key, cell] : cells) {
    single |= cell.ok.size() == 1;
    several |= cell.ok.size() > 1;
    repeated |= cell.repeated > 0;
    for (const Result* r : cell.ok) {
      const std::string& source = r->data.source;
      if (!source.empty() && source != "generated") sources[key.second].insert(source);
    }
  }
  if (single)
    notes.push_back(
        "test accuracy in % [95 % interval]: Wilson's interval of one run, which is the sampling "
        "of the test set alone");
  if (several) notes.push_back("n seeds: mean and Student's 95 % interval over them");
  if (repeated) notes.push_back("a seed that ran more than once counts once, the first by path");
  if (group.synthetic)
    notes.push_back("synthetic: stand-in data, comparable with no published number");
  for (const auto& [task, names] : sources)
    notes.push_back(fmt::format("data of {}: {}", task, fmt::join(names, "; ")));
  if (!group.overridden.empty()) {
    notes.push_back(fmt::format("smoke or overridden run, not the recipe of {}: {}", group.protocol,
                                fmt::join(group.overridden, ", ")));
  }
}

// Where the published numbers are from, and what differs from the runs here.
void note_published(const RecipeGroup& group, const AccuracyCells& cells,
                    const std::vector<std::string>& tasks, const Published& reference,
                    std::vector<std::string>& notes) {
  const PublishedAccuracy& accuracy = *reference.accuracy;
  note_beside(reference, group.protocol, notes);
  note_released_forms(reference, group.results, notes);
  for (const std::string& task : tasks) {
    const auto published_count = accuracy.test_examples.find(task);
    if (published_count == accuracy.test_examples.end()) continue;
    std::set<int64_t> counts;
    for (const auto& [key, cell] : cells) {
      for (const Result* r : cell.ok) {
        if (key.second == task) counts.insert(r->test->count);
      }
    }
    counts.erase(published_count->second);
    if (!counts.empty()) {
      notes.push_back(fmt::format("{}: {} test examples here, {} in the published runs", task,
                                  fmt::join(counts, " or "), published_count->second));
    }
  }
}

// Whose test accuracies chose what was tested.
void note_choice(const AccuracyCells& cells, std::vector<std::string>& notes) {
  std::set<std::string> tasks;
  for (const auto& [key, cell] : cells) {
    if (std::ranges::any_of(cell.ok, [](const Result* r) { return chosen_on_test(*r); }))
      tasks.insert(key.second);
  }
  if (tasks.empty()) return;
  notes.push_back(
      fmt::format("{}: chosen on test: evaluation.dev is the test set here, so the best checkpoint "
                  "is the one with the best test accuracy",
                  fmt::join(tasks, ", ")));
}

std::vector<std::string> accuracy_notes(const RecipeGroup& group, const AccuracyCells& cells,
                                        const std::vector<std::string>& tasks,
                                        const Published* reference) {
  std::vector<std::string> notes;
  note_runs(group, cells, notes);
  note_choice(cells, notes);
  for (const std::string& note : contract_notes(group)) notes.push_back(note);
  if (reference == nullptr) {
    notes.push_back("no published numbers for protocol " + group.protocol);
  } else {
    note_published(group, cells, tasks, *reference, notes);
  }
  for (const std::string& task : tasks) note_unlearned(group, cells, task, notes);
  const std::vector<Standing> all = standings(cells);
  for (const std::string& task : tasks) note_standing(all, task, notes);
  const auto tests = std::ranges::count_if(all, [](const Standing& s) { return !s.test.empty(); });
  if (tests > 0) {
    notes.push_back(
        fmt::format("best: the highest mean; differences to it are tested at {:g} % (single runs: "
                    "exact McNemar test; seeds: Welch's t test), Holm's correction over {} test{}",
                    100 * kSignificance, tests, tests == 1 ? "" : "s"));
  }
  std::set<std::string> machines;
  for (const auto& [key, cell] : cells) {
    for (const Result* r : cell.ok) machines.insert(machine_text(r->machine));
  }
  if (!machines.empty()) notes.push_back(fmt::format("trained on: {}", fmt::join(machines, "; ")));
  return notes;
}

std::string percent_text(std::optional<double> percent) {
  return percent ? fmt::format("{:.2f}", *percent) : "–";
}

std::string median_text(const std::vector<double>& values, const char* format) {
  if (values.empty()) return "–";
  const double median = stats::quantile(values, 0.5);
  // A digit for every power of ten would make the table too wide.
  return median < 1e15 ? fmt::format(fmt::runtime(format), median) : short_number(median);
}

}  // namespace

std::vector<Table> accuracy_tables(std::span<const Result> results,
                                   std::span<const Published> references) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const std::vector<std::string> tasks = task_order(group, references);
    const AccuracyCells cells = accuracy_cells(group);
    const Published* reference = nearest(group.protocol, references);
    Table table{.title = "Accuracy: " + recipe_text(group, tasks),
                .columns = {{"attention", Align::kLeft}},
                .rows = {},
                .notes = accuracy_notes(group, cells, tasks, reference)};
    for (const std::string& task : tasks) {
      table.columns.push_back({task + " %", Align::kRight});
      if (reference != nullptr) table.columns.push_back({"published", Align::kRight});
    }
    if (tasks.size() > 1)
      table.columns.push_back({fmt::format("average of {}", tasks.size()), Align::kRight});

    std::map<std::string, const Result*> rows;  // name -> any of its results
    for (const auto& [r, name] : row_names(group)) rows.try_emplace(name, r);
    for (const auto& [name, any] : rows) {
      std::vector<std::string> row{name};
      std::vector<double> means;
      for (const std::string& task : tasks) {
        const auto it = cells.find({name, task});
        row.push_back(it == cells.end() ? "–" : it->second.text());
        if (it != cells.end() && !it->second.ok.empty()) means.push_back(it->second.percent());
        if (reference != nullptr)
          row.push_back(percent_text(reference->accuracy->value(task, any->attention)));
      }
      if (tasks.size() > 1)
        row.push_back(means.size() == tasks.size() ? fmt::format("{:.2f}", stats::mean(means))
                                                   : "–");
      table.rows.push_back(row);
    }

    const auto add_baseline = [&](const char* name, std::optional<double> Baseline::*which) {
      std::vector<std::string> row{name};
      bool any = false;
      for (const std::string& task : tasks) {
        const std::optional<double> percent = baseline_of(group, task).*which;
        any |= percent.has_value();
        row.push_back(percent_text(percent));
        if (reference != nullptr) row.push_back("");
      }
      if (any) table.rows.push_back(row);
    };
    add_baseline("(most frequent label)", &Baseline::majority);
    add_baseline("(chance)", &Baseline::chance);
    tables.push_back(table);
  }
  return tables;
}

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
          .title = fmt::format("Training cost: {}, on {}", recipe_text(group, tasks), machine),
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
      if (group.synthetic) table.notes.push_back("synthetic: stand-in data");
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
