// Groups results by recipe and prints them beside the published numbers.
#include "results/accuracy_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "results/recipes.h"
#include "results/statistics.h"

namespace lra {
namespace {

// Task columns in the order of the first paper that has them, then by name.
std::vector<std::string> task_order(const RecipeGroup& group,
                                    std::span<const Published> references) {
  std::vector<std::string> order;
  for (const Published& reference : references) {
    if (!reference.accuracy) continue;
    for (const std::string& task : reference.accuracy->tasks) {
      if (group.fingerprints.contains(task) &&
          std::find(order.begin(), order.end(), task) == order.end())
        order.push_back(task);
    }
  }
  for (const auto& [task, print] : group.fingerprints) {
    if (std::find(order.begin(), order.end(), task) == order.end()) order.push_back(task);
  }
  return order;
}

// What the seeds of one attention on one task come to.
struct Cell {
  std::vector<const Result*> ok;     // one a seed
  std::map<std::string, int> other;  // status -> count
  size_t repeated = 0;               // runs of a seed that is there already

  double percent() const {
    std::vector<double> values;
    for (const Result* r : ok) values.push_back(100 * r->test->accuracy);
    return mean(values);
  }
  Interval interval() const {
    if (ok.size() == 1) {
      const Interval wilson = wilson_interval(ok[0]->test->correct, ok[0]->test->count);
      return {100 * wilson.low, 100 * wilson.high};
    }
    std::vector<double> values;
    for (const Result* r : ok) values.push_back(100 * r->test->accuracy);
    const Interval student = student_interval(values);
    return {std::max(0.0, student.low), std::min(100.0, student.high)};
  }
  std::string statuses() const {
    std::string text;
    for (const auto& [status, count] : other) {
      text += text.empty() ? "" : ", ";
      text += count == 1 && ok.empty() ? status : fmt::format("{} {}", count, status);
    }
    return text;
  }
  std::string text() const {
    if (ok.empty()) return other.empty() ? "–" : statuses();
    const Interval ci = interval();
    std::string result = fmt::format("{:.2f} [{:.2f}, {:.2f}]", percent(), ci.low, ci.high);
    if (ok.size() > 1) result += fmt::format(" n={}", ok.size());
    if (!other.empty()) result += fmt::format(" ({})", statuses());
    return result;
  }
};

using Cells = std::map<std::pair<std::string, std::string>, Cell>;  // (row, task)

Cells cells_of(const RecipeGroup& group) {
  const auto names = row_names(group);
  Cells cells;
  for (const Result* r : group.results) {
    Cell& cell = cells[{names.at(r), r->task}];
    if (r->status == "ok" && r->test) {
      const auto same = [r](const Result* other) { return other->seed == r->seed; };
      if (std::any_of(cell.ok.begin(), cell.ok.end(), same)) {
        ++cell.repeated;
      } else {
        cell.ok.push_back(r);
      }
    } else {
      ++cell.other[r->status];
    }
  }
  return cells;
}

// The paper whose recipe is nearest: listed first for this protocol, else anywhere.
const Published* nearest(const std::string& protocol, std::span<const Published> references) {
  const Published* best = nullptr;
  size_t rank = SIZE_MAX;
  for (const Published& reference : references) {
    if (!reference.accuracy) continue;
    const auto& protocols = reference.accuracy->protocols;
    const auto at = static_cast<size_t>(std::find(protocols.begin(), protocols.end(), protocol) -
                                        protocols.begin());
    if (at < protocols.size() && at < rank) {
      best = &reference;
      rank = at;
    }
  }
  return best;
}

std::vector<std::string> accuracy_notes(const RecipeGroup& group, const Cells& cells,
                                        const std::vector<std::string>& tasks,
                                        const Published* reference) {
  std::vector<std::string> notes;
  bool single = false, several = false, repeated = false;
  std::set<std::string> machines;
  std::map<std::string, std::set<std::string>> sources;  // of what is not generated, by task
  for (const auto& [key, cell] : cells) {
    single |= cell.ok.size() == 1;
    several |= cell.ok.size() > 1;
    repeated |= cell.repeated > 0;
    for (const Result* r : cell.ok) {
      machines.insert(machine_text(r->machine));
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
  if (reference == nullptr) {
    notes.push_back("no published numbers for protocol " + group.protocol);
  } else {
    const PublishedAccuracy& accuracy = *reference->accuracy;
    notes.push_back(fmt::format("published: {}, {}", reference->source, accuracy.where));
    if (const auto it = accuracy.differences.find(group.protocol);
        it != accuracy.differences.end()) {
      notes.push_back(fmt::format("difference of protocol, {} against {}: {}", group.protocol,
                                  reference->name, it->second));
    }
    for (const std::string& task : tasks) {
      const auto published_count = accuracy.test_examples.find(task);
      std::set<int64_t> counts;
      for (const auto& [key, cell] : cells) {
        for (const Result* r : cell.ok) {
          if (key.second == task) counts.insert(r->test->count);
        }
      }
      if (published_count == accuracy.test_examples.end()) continue;
      counts.erase(published_count->second);
      if (!counts.empty()) {
        notes.push_back(fmt::format("{}: {} test examples here, {} in the published runs", task,
                                    fmt::join(counts, " or "), published_count->second));
      }
    }
  }
  if (!machines.empty()) notes.push_back(fmt::format("trained on: {}", fmt::join(machines, "; ")));
  return notes;
}

std::string percent_text(std::optional<double> percent) {
  return percent ? fmt::format("{:.2f}", *percent) : "–";
}

std::string median_text(const std::vector<double>& values, const char* format) {
  return values.empty() ? "–" : fmt::format(fmt::runtime(format), quantile(values, 0.5));
}

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}
std::string integer_text(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "";
}

}  // namespace

std::vector<Table> accuracy_tables(std::span<const Result> results,
                                   std::span<const Published> references) {
  std::vector<Table> tables;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const std::vector<std::string> tasks = task_order(group, references);
    const Cells cells = cells_of(group);
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
        row.push_back(means.size() == tasks.size() ? fmt::format("{:.2f}", mean(means)) : "–");
      table.rows.push_back(row);
    }

    std::map<std::string, double> majority;  // of the test split, by task
    for (const Result* r : group.results) {
      if (r->data.majority) majority.try_emplace(r->task, 100 * *r->data.majority);
    }
    if (!majority.empty()) {
      std::vector<std::string> row{"(most frequent label)"};
      for (const std::string& task : tasks) {
        const auto it = majority.find(task);
        row.push_back(it == majority.end() ? "–" : fmt::format("{:.2f}", it->second));
        if (reference != nullptr) row.push_back("");
      }
      table.rows.push_back(row);
    }
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
        machines[machine_text(r->machine)][{r->task, names.at(r)}].push_back(r);
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
          statuses.insert(r->status);
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

Table accuracy_long(std::span<const Result> results, std::span<const Published> references) {
  Table table{.title = "Accuracy",
              .columns = {{"protocol"},
                          {"overridden"},
                          {"dtype"},
                          {"synthetic"},
                          {"fingerprint"},
                          {"task"},
                          {"attention"},
                          {"runs"},
                          {"other_statuses"},
                          {"accuracy_percent"},
                          {"ci95_low"},
                          {"ci95_high"},
                          {"interval"},
                          {"published_percent"},
                          {"published_source"}},
              .rows = {},
              .notes = {}};
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const Published* reference = nearest(group.protocol, references);
    std::map<std::string, const Result*> rows;
    for (const auto& [r, name] : row_names(group)) rows.try_emplace(name, r);
    for (const auto& [key, cell] : cells_of(group)) {
      const auto& [name, task] = key;
      std::vector<std::string> row{group.protocol,
                                   fmt::format("{}", fmt::join(group.overridden, "; ")),
                                   group.dtype,
                                   group.synthetic ? "true" : "false",
                                   group.fingerprints.at(task),
                                   task,
                                   name,
                                   fmt::format("{}", cell.ok.size()),
                                   cell.statuses()};
      if (cell.ok.empty()) {
        row.insert(row.end(), 4, "");
      } else {
        const Interval ci = cell.interval();
        row.insert(row.end(),
                   {fmt::format("{:.4f}", cell.percent()), fmt::format("{:.4f}", ci.low),
                    fmt::format("{:.4f}", ci.high), cell.ok.size() == 1 ? "wilson" : "student"});
      }
      const auto value = reference == nullptr
                             ? std::nullopt
                             : reference->accuracy->value(task, rows.at(name)->attention);
      row.push_back(value ? fmt::format("{:.2f}", *value) : "");
      row.push_back(value ? reference->name : "");
      table.rows.push_back(row);
    }
  }
  return table;
}

Table results_long(std::span<const Result> results) {
  Table table{.title = "Runs",
              .columns = {{"task"},
                          {"attention"},
                          {"options"},
                          {"protocol"},
                          {"overridden"},
                          {"dtype"},
                          {"seed"},
                          {"status"},
                          {"reason"},
                          {"test_accuracy"},
                          {"test_correct"},
                          {"test_count"},
                          {"ci95_low"},
                          {"ci95_high"},
                          {"dev_accuracy"},
                          {"best_step"},
                          {"steps"},
                          {"parameters"},
                          {"seconds"},
                          {"steps_per_second"},
                          {"tokens_per_second"},
                          {"peak_memory_mib"},
                          {"data_source"},
                          {"synthetic"},
                          {"fingerprint"},
                          {"machine"},
                          {"path"}},
              .rows = {},
              .notes = {}};
  for (const Result& r : results) {
    std::vector<std::string> row{r.task,
                                 r.attention.label,
                                 dumped(r.attention.options),
                                 r.protocol,
                                 fmt::format("{}", fmt::join(r.overridden(), "; ")),
                                 r.dtype(),
                                 fmt::format("{}", r.seed),
                                 r.status,
                                 r.reason};
    if (r.test) {
      row.insert(row.end(),
                 {fmt::format("{}", r.test->accuracy), fmt::format("{}", r.test->correct),
                  fmt::format("{}", r.test->count), fmt::format("{:.6f}", r.test->ci95.low),
                  fmt::format("{:.6f}", r.test->ci95.high)});
    } else {
      row.insert(row.end(), 5, "");
    }
    row.insert(
        row.end(),
        {r.dev ? fmt::format("{}", r.dev->accuracy) : "", integer_text(r.best_step),
         integer_text(r.steps), integer_text(r.parameters), number_text(r.training.seconds),
         number_text(r.training.steps_per_second), number_text(r.training.tokens_per_second),
         number_text(r.training.peak_memory_mib), r.data.source,
         r.data.synthetic ? "true" : "false", r.data.fingerprint, machine_text(r.machine), r.path});
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace lra
