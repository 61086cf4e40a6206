// The accuracies and runs in long form, for other programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/changed_settings.h"
#include "results/analysis/standings.h"
#include "results/print/long_table.h"
#include "results/records/json_line.h"
#include "results/tables/accuracy_notes.h"
#include "results/tables/accuracy_table.h"

namespace lra {
namespace {

std::string fixed(std::optional<double> value) {
  return value ? fmt::format("{:.4f}", *value) : "";
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

// A cell of an accuracy table.
struct LongAccuracy {
  const RecipeGroup& group;
  std::string row, task;
  AccuracyCell cell;
  const Result& first;  // of the row's runs of the task
  Baseline baseline;
  std::optional<stats::Interval> ci95;
  std::string place;  // of the standing, "" where there is none
  Standing standing;
  const Published* reference;  // null: none
  std::optional<double> published;

  const Result& counted() const { return cell.ok.empty() ? first : *cell.ok[0]; }
};

std::string interval_name(const AccuracyCell& cell) {
  if (cell.ok.empty()) return "";
  return cell.ok.size() > 1 ? "seeds" : cell.ok[0]->test->samples ? "clustered" : "wilson";
}

constexpr LongColumn<LongAccuracy> kAccuracyColumns[] = {
    {"protocol", [](const auto& r) { return r.group.protocol; }},
    {"overridden", [](const auto& r) { return overridden_text(r.group, r.first); }},
    {"dtype", [](const auto& r) { return r.group.dtype; }},
    {"synthetic",
     [](const auto& r) { return fmt::format("{}", r.group.synthetic.contains(r.task)); }},
    {"fingerprint", [](const auto& r) { return r.group.fingerprints.at(r.task); }},
    {"task", [](const auto& r) { return r.task; }},
    {"attention", [](const auto& r) { return r.row; }},
    {"runs", [](const auto& r) { return fmt::format("{}", r.cell.ok.size()); }},
    {"other_statuses", [](const auto& r) { return r.cell.statuses(); }},
    {"accuracy_percent",
     [](const auto& r) { return r.cell.ok.empty() ? "" : fixed(r.cell.percent()); }},
    {"ci95_low", [](const auto& r) { return r.ci95 ? fixed(r.ci95->low) : ""; }},
    {"ci95_high", [](const auto& r) { return r.ci95 ? fixed(r.ci95->high) : ""; }},
    {"interval", [](const auto& r) { return interval_name(r.cell); }},
    {"published_percent",
     [](const auto& r) { return r.published ? fmt::format("{:.2f}", *r.published) : ""; }},
    {"published_source", [](const auto& r) { return r.published ? r.reference->name : ""; }},
    {"sd_over_seeds", [](const auto& r) { return fixed(r.cell.sd()); }},
    {"majority_percent", [](const auto& r) { return fixed(r.baseline.majority); }},
    {"chance_percent", [](const auto& r) { return fixed(r.baseline.chance); }},
    {"runs_learned",
     [](const auto& r) {
       return r.baseline.highest() ? fmt::format("{}", r.cell.learned.size()) : "";
     }},
    {"learned_percent",
     [](const auto& r) {
       return r.baseline.highest() && !r.cell.learned.empty()
                  ? fixed(r.cell.learned_only().percent())
                  : "";
     }},
    {"place", [](const auto& r) { return r.place; }},
    {"difference_to_best", [](const auto& r) { return fixed(r.standing.difference); }},
    {"difference_low",
     [](const auto& r) { return r.standing.ci95 ? fixed(r.standing.ci95->low) : ""; }},
    {"difference_high",
     [](const auto& r) { return r.standing.ci95 ? fixed(r.standing.ci95->high) : ""; }},
    {"test", [](const auto& r) { return r.standing.test; }},
    {"p", [](const auto& r) { return r.standing.p ? short_number(*r.standing.p) : ""; }},
    {"p_holm",
     [](const auto& r) { return r.standing.adjusted ? short_number(*r.standing.adjusted) : ""; }},
    {"budget", [](const auto& r) { return r.group.budget.name; }},
    {"metric", [](const auto& r) { return r.counted().metric; }},
    {"pretrained",
     [](const auto& r) { return r.counted().pretrained ? r.counted().pretrained->objective : ""; }},
    {"regime", [](const auto& r) { return r.group.regime; }},
    {"settings", [](const auto& r) { return settings_text(r.group, r.first); }},
    {"diverged", [](const auto& r) { return fmt::format("{}", r.cell.diverged); }},
    {"data_variant",
     [](const auto& r) {
       return r.group.variants.contains(r.task) ? r.group.variants.at(r.task) : "";
     }},
    {"sample_majority_percent", [](const auto& r) { return fixed(r.baseline.sample_majority); }},
    {"recipe", [](const auto& r) { return fmt::format("{}", r.group.number); }},
    {"dev_percent", [](const auto& r) { return fixed(r.cell.dev_percent()); }},
};

// `first`: of the row's runs.
std::optional<double> published_accuracy(const RecipeGroup& group, const Published* reference,
                                         const Result& first, const std::string& task) {
  const bool compares = reference != nullptr && first.metric.empty() && shows_published(group) &&
                        !group.has_other_data(task);
  return compares ? reference->accuracy->value(task, first.attention) : std::nullopt;
}

void append_cells(const RecipeGroup& group, const Published* reference,
                  std::vector<LongAccuracy>& rows) {
  std::map<std::string, const Result*> first_of;                               // by row
  std::map<std::pair<std::string, std::string>, const Result*> first_of_task;  // and task
  for (const auto& [r, name] : row_names(group)) {
    first_of.try_emplace(name, r);
    first_of_task.try_emplace({name, r->task}, r);
  }
  const AccuracyCells cells = accuracy_cells(group);
  std::map<std::pair<std::string, std::string>, Standing> places;  // likewise
  for (const Standing& standing : standings(cells))
    places.emplace(std::pair(standing.row, standing.task), standing);
  for (const auto& [key, cell] : cells) {
    const auto& [name, task] = key;
    const auto standing = places.find(key);
    const bool stands = standing != places.end();
    rows.push_back({.group = group,
                    .row = name,
                    .task = task,
                    .cell = cell,
                    .first = *first_of_task.at(key),
                    .baseline = baseline_of(group, task),
                    .ci95 = cell.ok.empty() ? std::nullopt : std::optional(cell.interval()),
                    .place = stands ? standing->second.text() : "",
                    .standing = stands ? standing->second : Standing{},
                    .reference = reference,
                    .published = published_accuracy(group, reference, *first_of.at(name), task)});
  }
}

struct LongRun {
  const Result& run;
  std::string settings, recipe, row;
};

constexpr LongColumn<LongRun> kRunColumns[] = {
    {"task", [](const auto& r) { return r.run.task; }},
    {"attention", [](const auto& r) { return r.run.attention.label; }},
    {"options", [](const auto& r) { return json_line(r.run.attention.options); }},
    {"protocol", [](const auto& r) { return r.run.protocol; }},
    {"overridden",
     [](const auto& r) { return fmt::format("{}", fmt::join(r.run.overridden(), "; ")); }},
    {"dtype", [](const auto& r) { return r.run.dtype(); }},
    {"seed", [](const auto& r) { return fmt::format("{}", r.run.seed); }},
    {"status", [](const auto& r) { return to_string(r.run.status); }},
    {"reason", [](const auto& r) { return r.run.reason; }},
    {"test_accuracy",
     [](const auto& r) { return r.run.test ? exact_number(r.run.test->accuracy) : ""; }},
    {"test_correct",
     [](const auto& r) { return r.run.test ? exact_integer(r.run.test->correct) : ""; }},
    {"test_count",
     [](const auto& r) { return r.run.test ? exact_integer(r.run.test->count) : ""; }},
    {"ci95_low",
     [](const auto& r) { return r.run.test ? fmt::format("{:.6f}", r.run.test->ci95.low) : ""; }},
    {"ci95_high",
     [](const auto& r) { return r.run.test ? fmt::format("{:.6f}", r.run.test->ci95.high) : ""; }},
    {"dev_accuracy",
     [](const auto& r) { return r.run.dev ? exact_number(r.run.dev->accuracy) : ""; }},
    {"best_step", [](const auto& r) { return exact_integer(r.run.best_step); }},
    {"steps", [](const auto& r) { return exact_integer(r.run.steps); }},
    {"parameters", [](const auto& r) { return exact_integer(r.run.parameters); }},
    {"seconds", [](const auto& r) { return exact_number(r.run.training.seconds); }},
    {"steps_per_second",
     [](const auto& r) { return exact_number(r.run.training.steps_per_second); }},
    {"tokens_per_second",
     [](const auto& r) { return exact_number(r.run.training.tokens_per_second); }},
    {"peak_memory_mib", [](const auto& r) { return exact_number(r.run.training.peak_memory_mib); }},
    {"data_source", [](const auto& r) { return r.run.data.source; }},
    {"synthetic", [](const auto& r) { return fmt::format("{}", r.run.data.synthetic); }},
    {"fingerprint", [](const auto& r) { return r.run.data.fingerprint; }},
    {"majority", [](const auto& r) { return exact_number(r.run.data.majority); }},
    {"dev_majority", [](const auto& r) { return exact_number(r.run.data.dev_majority); }},
    {"left_majority_at", [](const auto& r) { return exact_integer(r.run.left_majority_at); }},
    {"machine", [](const auto& r) { return machine_setting_text(r.run); }},
    {"contract", [](const auto& r) { return r.run.contract ? r.run.contract->count() : ""; }},
    {"contract_failures",
     [](const auto& r) { return r.run.contract ? r.run.contract->failures() : ""; }},
    {"metric", [](const auto& r) { return r.run.metric; }},
    {"pretrained",
     [](const auto& r) { return r.run.pretrained ? r.run.pretrained->objective : ""; }},
    {"total_steps",
     [](const auto& r) {
       return r.run.pretrained ? exact_integer(r.run.pretrained->total_steps) : "";
     }},
    {"total_samples",
     [](const auto& r) {
       return r.run.pretrained ? exact_integer(r.run.pretrained->total_samples) : "";
     }},
    {"total_seconds",
     [](const auto& r) {
       return r.run.pretrained ? exact_number(r.run.pretrained->total_seconds) : "";
     }},
    {"path", [](const auto& r) { return r.run.path; }},
    {"regime", [](const auto& r) { return r.run.regime; }},
    {"settings", [](const auto& r) { return r.settings; }},
    {"others", [](const auto& r) { return exact_number(r.run.training.others); }},
    {"evaluation_peak_memory_mib",
     [](const auto& r) { return exact_number(r.run.training.evaluation_peak_memory_mib); }},
    {"data_memory_mib", [](const auto& r) { return exact_number(r.run.training.data_memory_mib); }},
    {"sample_majority", [](const auto& r) { return exact_number(r.run.data.sample_majority); }},
    {"dev_sample_majority",
     [](const auto& r) { return exact_number(r.run.data.dev_sample_majority); }},
    {"measured_from",
     [](const auto& r) {
       return r.run.training.measured_from > 0 ? exact_integer(r.run.training.measured_from) : "";
     }},
    {"recipe", [](const auto& r) { return r.recipe; }},
    {"row", [](const auto& r) { return r.row; }},
    {"never_left_majority",
     [](const auto& r) -> std::string {
       return r.run.left_majority_at ? "false" : r.run.never_left_majority() ? "true" : "";
     }},
    {"data_variant", [](const auto& r) { return r.run.data.variant(); }},
};

}  // namespace

Table accuracy_long(std::span<const Result> results, std::span<const Published> references) {
  const std::vector<RecipeGroup> groups = group_by_recipe(results);
  std::vector<LongAccuracy> rows;
  for (const RecipeGroup& group : groups) append_cells(group, nearest(group, references), rows);
  return long_table("Accuracy", kAccuracyColumns, rows);
}

Table results_long(std::span<const Result> results) {
  std::vector<LongRun> rows;
  for (const Result& r : results) rows.push_back({.run = r});
  for (const RecipeGroup& group : group_by_recipe(results)) {
    for (const auto& [r, name] : row_names(group)) {
      LongRun& row = rows[static_cast<size_t>(r - results.data())];
      row.settings = settings_text(group, *r);
      row.recipe = fmt::format("{}", group.number);
      row.row = name;
    }
  }
  return long_table("Runs", kRunColumns, rows);
}

}  // namespace lra
