// The accuracies and runs in long form, for other programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "results/analysis/accuracy_cells.h"
#include "results/analysis/standings.h"
#include "results/records/json_line.h"
#include "results/tables/accuracy_table.h"

namespace lra {
namespace {

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}
std::string integer_text(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string fixed(std::optional<double> value) {
  return value ? fmt::format("{:.4f}", *value) : "";
}

}  // namespace

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
                          {"published_source"},
                          {"sd_over_seeds"},
                          {"majority_percent"},
                          {"chance_percent"},
                          {"runs_learned"},
                          {"place"},
                          {"difference_to_best"},
                          {"difference_low"},
                          {"difference_high"},
                          {"test"},
                          {"p"},
                          {"p_holm"}},
              .rows = {},
              .notes = {}};
  for (const RecipeGroup& group : group_by_recipe(results)) {
    const Published* reference = nearest(group.protocol, references);
    std::map<std::string, const Result*> rows;
    for (const auto& [r, name] : row_names(group)) rows.try_emplace(name, r);
    const AccuracyCells cells = accuracy_cells(group);
    std::map<std::pair<std::string, std::string>, Standing> places;
    for (Standing& standing : standings(cells)) {
      const std::pair key(standing.row, standing.task);
      places.emplace(key, std::move(standing));
    }
    for (const auto& [key, cell] : cells) {
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
        const stats::Interval ci = cell.interval();
        row.insert(row.end(),
                   {fmt::format("{:.4f}", cell.percent()), fmt::format("{:.4f}", ci.low),
                    fmt::format("{:.4f}", ci.high), cell.ok.size() == 1 ? "wilson" : "student"});
      }
      const auto value = reference == nullptr
                             ? std::nullopt
                             : reference->accuracy->value(task, rows.at(name)->attention);
      row.push_back(value ? fmt::format("{:.2f}", *value) : "");
      row.push_back(value ? reference->name : "");
      const Baseline baseline = baseline_of(group, task);
      const auto good =
          std::ranges::count_if(cell.ok, [&](const Result* r) { return learned(*r, baseline); });
      row.insert(row.end(), {fixed(cell.sd()), fixed(baseline.majority), fixed(baseline.chance),
                             baseline.highest() ? fmt::format("{}", good) : ""});
      if (const auto it = places.find(key); it != places.end()) {
        const Standing& s = it->second;
        row.insert(row.end(),
                   {s.text(), fixed(s.difference), s.ci95 ? fixed(s.ci95->low) : "",
                    s.ci95 ? fixed(s.ci95->high) : "", s.test, s.p ? short_number(*s.p) : "",
                    s.adjusted ? short_number(*s.adjusted) : ""});
      } else {
        row.insert(row.end(), 7, "");
      }
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
                          {"majority"},
                          {"machine"},
                          {"path"}},
              .rows = {},
              .notes = {}};
  for (const Result& r : results) {
    std::vector<std::string> row{r.task,
                                 r.attention.label,
                                 json_line(r.attention.options),
                                 r.protocol,
                                 fmt::format("{}", fmt::join(r.overridden(), "; ")),
                                 r.dtype(),
                                 fmt::format("{}", r.seed),
                                 text(r.status),
                                 r.reason};
    if (r.test) {
      row.insert(row.end(),
                 {fmt::format("{}", r.test->accuracy), fmt::format("{}", r.test->correct),
                  fmt::format("{}", r.test->count), fmt::format("{:.6f}", r.test->ci95.low),
                  fmt::format("{:.6f}", r.test->ci95.high)});
    } else {
      row.insert(row.end(), 5, "");
    }
    row.insert(row.end(),
               {r.dev ? fmt::format("{}", r.dev->accuracy) : "", integer_text(r.best_step),
                integer_text(r.steps), integer_text(r.parameters), number_text(r.training.seconds),
                number_text(r.training.steps_per_second), number_text(r.training.tokens_per_second),
                number_text(r.training.peak_memory_mib), r.data.source,
                r.data.synthetic ? "true" : "false", r.data.fingerprint,
                number_text(r.data.majority), machine_setting_text(r), r.path});
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace lra
