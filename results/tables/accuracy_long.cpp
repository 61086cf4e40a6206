// The accuracies and runs in long form, for other programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/changed_settings.h"
#include "results/analysis/standings.h"
#include "results/records/json_line.h"
#include "results/tables/accuracy_notes.h"
#include "results/tables/accuracy_table.h"

namespace lra {
namespace {

std::string integer_text(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string fixed(std::optional<double> value) {
  return value ? fmt::format("{:.4f}", *value) : "";
}

constexpr const char* kAccuracyColumns[] = {"protocol",
                                            "overridden",
                                            "dtype",
                                            "synthetic",
                                            "fingerprint",
                                            "task",
                                            "attention",
                                            "runs",
                                            "other_statuses",
                                            "accuracy_percent",
                                            "ci95_low",
                                            "ci95_high",
                                            "interval",
                                            "published_percent",
                                            "published_source",
                                            "sd_over_seeds",
                                            "majority_percent",
                                            "chance_percent",
                                            "runs_learned",
                                            "learned_percent",
                                            "place",
                                            "difference_to_best",
                                            "difference_low",
                                            "difference_high",
                                            "test",
                                            "p",
                                            "p_holm",
                                            "budget",
                                            "metric",
                                            "pretrained",
                                            "regime",
                                            "settings",
                                            "diverged",
                                            "data_variant",
                                            "sample_majority_percent",
                                            "recipe",
                                            "dev_percent"};

constexpr const char* kRunColumns[] = {"task",
                                       "attention",
                                       "options",
                                       "protocol",
                                       "overridden",
                                       "dtype",
                                       "seed",
                                       "status",
                                       "reason",
                                       "test_accuracy",
                                       "test_correct",
                                       "test_count",
                                       "ci95_low",
                                       "ci95_high",
                                       "dev_accuracy",
                                       "best_step",
                                       "steps",
                                       "parameters",
                                       "seconds",
                                       "steps_per_second",
                                       "tokens_per_second",
                                       "peak_memory_mib",
                                       "data_source",
                                       "synthetic",
                                       "fingerprint",
                                       "majority",
                                       "dev_majority",
                                       "left_majority_at",
                                       "machine",
                                       "contract",
                                       "contract_failures",
                                       "metric",
                                       "pretrained",
                                       "total_steps",
                                       "total_samples",
                                       "total_seconds",
                                       "path",
                                       "regime",
                                       "settings",
                                       "others",
                                       "evaluation_peak_memory_mib",
                                       "data_memory_mib",
                                       "sample_majority",
                                       "dev_sample_majority",
                                       "measured_from",
                                       "recipe",
                                       "row",
                                       "never_left_majority",
                                       "data_variant"};

Table long_table(const char* title, std::span<const char* const> columns) {
  Table table{.title = title, .columns = {}, .rows = {}, .notes = {}};
  for (const char* column : columns) table.columns.push_back({column});
  return table;
}

using LongCells = std::vector<std::string>;

// What is the same for all cells of a recipe.
struct LongRecipe {
  const RecipeGroup& group;
  const Published* reference;                                                       // null: none
  std::map<std::string, const Result*> first_of = {};                               // by row
  std::map<std::pair<std::string, std::string>, const Result*> first_of_task = {};  // and task
  std::map<std::pair<std::string, std::string>, Standing> standings = {};           // likewise
};

// Accuracy, its interval and what that is.
LongCells accuracy_cells_of(const AccuracyCell& cell) {
  if (cell.ok.empty()) return LongCells(4);
  const stats::Interval ci = cell.interval();
  return {fmt::format("{:.4f}", cell.percent()), fmt::format("{:.4f}", ci.low),
          fmt::format("{:.4f}", ci.high),
          cell.ok.size() > 1          ? "seeds"
          : cell.ok[0]->test->samples ? "clustered"
                                      : "wilson"};
}

LongCells published_cells(const LongRecipe& recipe, const std::string& row,
                          const std::string& task) {
  const AttentionRecord& attention = recipe.first_of.at(row)->attention;
  const bool compares = recipe.reference != nullptr && recipe.first_of.at(row)->metric.empty() &&
                        shows_published(recipe.group) && !recipe.group.has_other_data(task);
  const auto value = !compares ? std::nullopt : recipe.reference->accuracy->value(task, attention);
  if (!value) return LongCells(2);
  return {fmt::format("{:.2f}", *value), recipe.reference->name};
}

LongCells baseline_cells(const Baseline& baseline, const AccuracyCell& cell) {
  const bool known = baseline.highest().has_value();
  return {fixed(cell.sd()), fixed(baseline.majority), fixed(baseline.chance),
          known ? fmt::format("{}", cell.learned.size()) : "",
          known && !cell.learned.empty() ? fixed(cell.learned_only().percent()) : ""};
}

LongCells standing_cells(const LongRecipe& recipe, const std::pair<std::string, std::string>& key) {
  const auto it = recipe.standings.find(key);
  if (it == recipe.standings.end()) return LongCells(7);
  const Standing& s = it->second;
  return {s.text(),
          fixed(s.difference),
          s.ci95 ? fixed(s.ci95->low) : "",
          s.ci95 ? fixed(s.ci95->high) : "",
          s.test,
          s.p ? short_number(*s.p) : "",
          s.adjusted ? short_number(*s.adjusted) : ""};
}

void append(LongCells& row, LongCells cells) {
  row.insert(row.end(), std::make_move_iterator(cells.begin()),
             std::make_move_iterator(cells.end()));
}

// What the protocol was changed in, by the user or a budget, for a row of this run.
std::string overridden_text(const RecipeGroup& group, const Result& r) {
  std::vector<std::string> all = group.overridden;
  const auto own = values_over_budget(r, group.budget);
  std::ranges::copy_if(group.of_budget, std::back_inserter(all), [&](const std::string& text) {
    return !own.contains(split_override(text).first);
  });
  std::ranges::sort(all);
  return fmt::format("{}", fmt::join(all, "; "));
}

// What tells the group apart, and the values of the run's attention in place of the budget's.
std::string settings_text(const RecipeGroup& group, const Result& r) {
  std::vector<std::string> all = group.settings;
  for (const auto& [key, value] : values_over_budget(r, group.budget))
    all.push_back(key + "=" + value);
  return fmt::format("{}", fmt::join(all, "; "));
}

LongCells test_cells(const std::optional<Accuracy>& test) {
  if (!test) return LongCells(5);
  return {fmt::format("{}", test->accuracy), fmt::format("{}", test->correct),
          fmt::format("{}", test->count), fmt::format("{:.6f}", test->ci95.low),
          fmt::format("{:.6f}", test->ci95.high)};
}

// What the accuracies are of, what the weights were trained for before, and the cost of both.
LongCells origin_cells(const Result& r) {
  if (!r.pretrained) return {r.metric, "", "", "", ""};
  const PretrainingRecord& p = *r.pretrained;
  return {r.metric, p.objective, integer_text(p.total_steps), integer_text(p.total_samples),
          exact_number(p.total_seconds)};
}

}  // namespace

Table accuracy_long(std::span<const Result> results, std::span<const Published> references) {
  Table table = long_table("Accuracy", kAccuracyColumns);
  for (const RecipeGroup& group : group_by_recipe(results)) {
    LongRecipe recipe{.group = group, .reference = nearest(group, references)};
    for (const auto& [r, name] : row_names(group)) {
      recipe.first_of.try_emplace(name, r);
      recipe.first_of_task.try_emplace({name, r->task}, r);
    }
    const AccuracyCells cells = accuracy_cells(group);
    for (Standing& standing : standings(cells)) {
      const std::pair key(standing.row, standing.task);
      recipe.standings.emplace(key, std::move(standing));
    }
    for (const auto& [key, cell] : cells) {
      const auto& [name, task] = key;
      const Result& of_task = *recipe.first_of_task.at(key);
      LongCells row{group.protocol,
                    overridden_text(group, of_task),
                    group.dtype,
                    group.synthetic.contains(task) ? "true" : "false",
                    group.fingerprints.at(task),
                    task,
                    name,
                    fmt::format("{}", cell.ok.size()),
                    cell.statuses()};
      append(row, accuracy_cells_of(cell));
      append(row, published_cells(recipe, name, task));
      const Baseline baseline = baseline_of(group, task);
      append(row, baseline_cells(baseline, cell));
      append(row, standing_cells(recipe, key));
      row.push_back(group.budget.name);
      const Result& first = cell.ok.empty() ? of_task : *cell.ok[0];
      append(row, {first.metric, first.pretrained ? first.pretrained->objective : "", group.regime,
                   settings_text(group, of_task), fmt::format("{}", cell.diverged),
                   group.variants.contains(task) ? group.variants.at(task) : "",
                   fixed(baseline.sample_majority), fmt::format("{}", group.number),
                   fixed(cell.dev_percent())});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table results_long(std::span<const Result> results) {
  Table table = long_table("Runs", kRunColumns);
  std::map<const Result*, std::string> settings, recipes, rows;
  for (const RecipeGroup& group : group_by_recipe(results)) {
    for (const auto& [r, name] : row_names(group)) {
      settings[r] = settings_text(group, *r);
      recipes[r] = fmt::format("{}", group.number);
      rows[r] = name;
    }
  }
  for (const Result& r : results) {
    LongCells row{r.task,
                  r.attention.label,
                  json_line(r.attention.options),
                  r.protocol,
                  fmt::format("{}", fmt::join(r.overridden(), "; ")),
                  r.dtype(),
                  fmt::format("{}", r.seed),
                  to_string(r.status),
                  r.reason};
    append(row, test_cells(r.test));
    append(row,
           {r.dev ? fmt::format("{}", r.dev->accuracy) : "", integer_text(r.best_step),
            integer_text(r.steps), integer_text(r.parameters), exact_number(r.training.seconds),
            exact_number(r.training.steps_per_second), exact_number(r.training.tokens_per_second),
            exact_number(r.training.peak_memory_mib), r.data.source,
            r.data.synthetic ? "true" : "false", r.data.fingerprint, exact_number(r.data.majority),
            exact_number(r.data.dev_majority), integer_text(r.left_majority_at),
            machine_setting_text(r), r.contract ? r.contract->count() : "",
            r.contract ? r.contract->failures() : ""});
    append(row, origin_cells(r));
    append(row, {r.path, r.regime, settings[&r], exact_number(r.training.others),
                 exact_number(r.training.evaluation_peak_memory_mib),
                 exact_number(r.training.data_memory_mib), exact_number(r.data.sample_majority),
                 exact_number(r.data.dev_sample_majority),
                 r.training.measured_from > 0 ? fmt::format("{}", r.training.measured_from) : "",
                 recipes[&r], rows[&r],
                 r.left_majority_at        ? "false"
                 : r.never_left_majority() ? "true"
                                           : "",
                 r.data.variant()});
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace lra
