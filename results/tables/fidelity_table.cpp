// Groups the cells of fidelity experiments by what they were measured with.
#include "results/tables/fidelity_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "results/print/gnuplot.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

constexpr const char* kNames[] = {"Landmarks on raw scores", "Landmarks on softmax attention",
                                  "Iterations of the inverse", "All approximations"};

// What must be equal for two cells to stand in one table.
using Setting = std::tuple<int64_t, std::string, int64_t, int64_t, int64_t, int64_t, int64_t,
                           uint64_t, std::string, std::string, int64_t, std::string>;

std::string data_text(const FidelityData& data) {
  if (!data.from_run()) return data.source;
  return fmt::format("{} trained on {} ({}, seed {}, step {}), data {}{}", data.attention,
                     data.task, data.protocol, data.seed, data.step, data.fingerprint.substr(0, 12),
                     data.synthetic ? ", SYNTHETIC" : "");
}

Setting setting_of(const Fidelity& f) {
  return {f.experiment,
          data_text(f.data) + f.data.identity,
          f.layer.value_or(-1),
          f.length,
          f.heads,
          f.head_dim,
          f.trials,
          f.seed,
          f.budget,
          f.device,
          f.threads.value_or(0),
          machine_text(f.machine)};
}

// "Iterations of the inverse, layer 1 of ..."
std::string heading(const Fidelity& f) {
  const std::string experiment = f.experiment <= std::ssize(kNames)
                                     ? kNames[f.experiment - 1]
                                     : fmt::format("Experiment {}", f.experiment);
  const std::string layer = f.layer ? fmt::format("layer {} of ", *f.layer) : "";
  return fmt::format("{}, {}{}", experiment, layer, data_text(f.data));
}

std::string setting_text(const Fidelity& f) {
  const std::string threads =
      f.threads ? fmt::format(", {} thread{}", *f.threads, *f.threads == 1 ? "" : "s") : "";
  return fmt::format("length {}, {} head{} of {}, {} trial{}, seed {}, {}{}, on {}", f.length,
                     f.heads, f.heads == 1 ? "" : "s", f.head_dim, f.trials,
                     f.trials == 1 ? "" : "s", f.seed, f.device, threads, machine_text(f.machine));
}

std::string title_text(const Fidelity& f, std::string_view what) {
  return fmt::format("{}: {}; {}", heading(f), what, setting_text(f));
}

struct Row {
  std::map<int64_t, const Fidelity*> cells;  // by budget
  const Fidelity* fixed = nullptr;           // without a budget
};

struct Group {
  std::vector<const Fidelity*> cells;
  std::string budget;        // the option or options
  std::set<int64_t> values;  // of the budget
  std::map<std::string, Row> rows;
  bool has_fixed = false;
};

// Labels that were measured with several sets of options or number types are several rows.
void add_rows(Group& group) {
  std::map<std::string, std::set<std::string>> dtypes, options;
  // The budget is among the effective options, and is no difference.
  const auto options_text = [](const Fidelity& f) {
    json rest = f.attention.options;
    rest.erase(f.budget);
    return json_line(rest);
  };
  std::set<std::string> all_types, budgets;
  for (const Fidelity* f : group.cells) {
    all_types.insert(f->dtype);
    options[f->attention.label].insert(options_text(*f));
    if (!f->budget.empty()) budgets.insert(f->budget);
  }
  for (const Fidelity* f : group.cells) {
    std::string name = f->attention.label;
    if (options[f->attention.label].size() > 1) name += fmt::format(" {}", options_text(*f));
    if (all_types.size() > 1) name += fmt::format(", {}", f->dtype);
    Row& row = group.rows[name];
    if (f->budget.empty()) {
      row.fixed = f;  // the later line stands
      group.has_fixed = true;
    } else {
      row.cells[f->budget_value] = f;
      group.values.insert(f->budget_value);
    }
  }
  group.budget = budgets.size() == 1 ? *budgets.begin() : "budget";
}

std::map<Setting, Group> grouped(std::span<const Fidelity> cells) {
  std::map<Setting, Group> groups;
  for (const Fidelity& f : cells) {
    Setting setting = setting_of(f);
    // Every approximation has a budget of its own; they stand on one scale there.
    if (f.experiment == 4) std::get<8>(setting).clear();
    groups[setting].cells.push_back(&f);
  }
  for (auto& [setting, group] : groups) add_rows(group);
  return groups;
}

bool any(const Group& group, const auto& holds) {
  return std::ranges::any_of(group.cells, [&](const Fidelity* f) { return holds(*f); });
}

std::vector<int64_t> shown_values(const Group& group) {
  const Fidelity& front = *group.cells.front();
  if (group.values.size() <= 12) return {group.values.begin(), group.values.end()};
  std::vector<int64_t> abbreviated;
  for (const int64_t value : group.values) {
    const bool power = (value & (value - 1)) == 0;
    const bool around_width = std::abs(value - front.head_dim) <= 1;
    const bool sixes = front.experiment == 3 && value % 6 == 0;  // the paper takes six iterations
    if (power || around_width || sixes || value == *group.values.rbegin())
      abbreviated.push_back(value);
  }
  return abbreviated;
}

std::string estimate_text(const Estimate& estimate) {
  const std::string text = short_number(estimate.mean);
  if (!estimate.ci95) return text;
  return text + " ± " + short_number(estimate.ci95->high - estimate.mean);
}

std::vector<std::string> reasons(const Group& group) {
  std::map<std::string, std::set<std::string>> texts;  // by status
  for (const Fidelity* f : group.cells) {
    if (f->status == Status::ok || f->reason.empty()) continue;
    const std::string budget =
        f->budget.empty() ? "" : fmt::format(" at {}={}", f->budget, f->budget_value);
    texts[to_string(f->status)].insert(f->attention.label + budget + ": " + f->reason);
  }
  std::vector<std::string> notes;
  for (const auto& [status, found] : texts) {
    notes.push_back(
        fmt::format("{}: {}{}", status, *found.begin(),
                    found.size() > 1 ? fmt::format(" (and {} more)", found.size() - 1) : ""));
  }
  return notes;
}

// A table of the rows for which `text` has something to say in some cell.
template <class Text>
Table budget_table(const Group& group, const std::string& title, const Text& text) {
  Table table{.title = title, .columns = {{"attention", Align::kLeft}}, .rows = {}, .notes = {}};
  const std::vector<int64_t> abbreviated = shown_values(group);
  if (group.has_fixed) table.columns.push_back({"no budget"});
  for (const int64_t value : abbreviated)
    table.columns.push_back({value == abbreviated.front()
                                 ? fmt::format("{} = {}", group.budget, value)
                                 : fmt::format("{}", value)});
  for (const auto& [name, row] : group.rows) {
    std::vector<std::string> cells{name};
    const auto add = [&](const Fidelity* f) {
      cells.push_back(f == nullptr              ? "–"
                      : f->status != Status::ok ? to_string(f->status)
                                                : text(*f));
    };
    if (group.has_fixed) add(row.fixed);
    for (const int64_t value : abbreviated) {
      const auto it = row.cells.find(value);
      add(it == row.cells.end() ? nullptr : it->second);
    }
    if (std::ranges::any_of(cells.begin() + 1, cells.end(),
                            [](const std::string& cell) { return cell != "–"; }))
      table.rows.push_back(cells);
  }
  if (abbreviated.size() < group.values.size())
    table.notes.push_back(
        fmt::format("{} of {} budgets are shown", abbreviated.size(), group.values.size()));
  return table;
}

// On a logarithmic axis: an interval that reaches to zero or below is drawn down to a tenth of the
// mean; a mean of zero has no place.
std::optional<std::array<double, 4>> point(double x, const Estimate& estimate) {
  if (!(estimate.mean > 0) || !(x > 0)) return std::nullopt;
  const stats::Interval ci = estimate.ci95.value_or(stats::Interval{estimate.mean, estimate.mean});
  return {{x, estimate.mean, ci.low > 0 ? ci.low : estimate.mean / 10, ci.high}};
}

// One series a row; `x` gives a cell's place, if it has one.
template <class X>
std::vector<PlotSeries> series_of(const Group& group, std::string_view measure, const X& x) {
  std::vector<PlotSeries> series;
  for (const auto& [name, row] : group.rows) {
    PlotSeries one{.name = name, .points = {}};
    const auto add = [&](const Fidelity* f) {
      const Estimate* estimate = f->status == Status::ok ? f->find(measure) : nullptr;
      const std::optional<double> at = x(*f);
      if (estimate == nullptr || !at) return;
      if (const auto p = point(*at, *estimate)) one.points.push_back(*p);
    };
    if (row.fixed != nullptr) add(row.fixed);
    for (const auto& [value, cell] : row.cells) add(cell);
    if (!one.points.empty()) series.push_back(std::move(one));
  }
  return series;
}

constexpr const char* kFidelityColumns[] = {
    "experiment", "attention", "options",     "budget", "budget_value", "length",  "heads",
    "head_dim",   "trials",    "seed",        "dtype",  "device",       "threads", "data",
    "layer",      "synthetic", "fingerprint", "status", "reason",       "measure", "mean",
    "sd",         "ci95_low",  "ci95_high",   "median", "worst",        "time_ms", "peak_mib",
    "flops",      "machine",   "path"};

// One row of the long form; `e` is null where the cell has no such measure.
std::vector<std::string> long_row(const Fidelity& f, const std::string& measure,
                                  const Estimate* e) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.9g}", *value) : std::string();
  };
  const auto integer = [](const std::optional<int64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  const auto of = [&](double value) { return e == nullptr ? "" : fmt::format("{:.9g}", value); };
  const Estimate none;
  const Estimate& estimate = e == nullptr ? none : *e;
  const bool run = f.data.from_run();
  return {integer(f.experiment),
          f.attention.label,
          json_line(f.attention.options),
          f.budget,
          f.budget.empty() ? "" : integer(f.budget_value),
          integer(f.length),
          integer(f.heads),
          integer(f.head_dim),
          integer(f.trials),
          fmt::format("{}", f.seed),
          f.dtype,
          f.device,
          integer(f.threads),
          data_text(f.data),
          integer(f.layer),
          run ? (f.data.synthetic ? "true" : "false") : "",
          f.data.fingerprint,
          to_string(f.status),
          f.reason,
          measure,
          of(estimate.mean),
          number(estimate.sd),
          estimate.ci95 ? of(estimate.ci95->low) : "",
          estimate.ci95 ? of(estimate.ci95->high) : "",
          of(estimate.median),
          of(estimate.worst),
          f.time ? number(f.time->median) : "",
          f.memory ? number(f.memory->peak) : "",
          number(f.flops),
          machine_text(f.machine),
          f.path};
}

}  // namespace

std::vector<Table> fidelity_tables(std::span<const Fidelity> cells) {
  std::vector<Table> tables;
  for (const auto& [setting, group] : grouped(cells)) {
    const Fidelity& front = *group.cells.front();
    const size_t first = tables.size();
    for (const MeasureName& measure : kMeasures) {
      if (!any(group, [&](const Fidelity& f) { return f.find(measure.name) != nullptr; })) continue;
      const bool spread = measure.name == "condition";
      tables.push_back(
          budget_table(group, title_text(front, measure.title), [&](const Fidelity& f) {
            const Estimate* e = f.find(measure.name);
            if (e == nullptr) return std::string("–");
            return spread ? short_number(e->median) + " / " + short_number(e->worst)
                          : estimate_text(*e);
          }));
      tables.back().notes.push_back(spread ? "a cell is median / worst"
                                           : "a cell is the mean over the trials ± half of its 95 "
                                             "% interval (Student)");
    }
    if (any(group, [](const Fidelity& f) { return f.time && f.memory; })) {
      tables.push_back(
          budget_table(group, title_text(front, "time and memory"), [](const Fidelity& f) {
            if (!f.time || !f.memory) return std::string("–");
            return short_number(f.memory->peak) + " / " + short_number(f.time->median);
          }));
      tables.back().notes.push_back(
          "a cell is MiB / ms: peak of live tensors above inputs and weights, and median time");
    }
    if (tables.size() == first)  // nothing came of any cell
      tables.push_back(
          budget_table(group, title_text(front, "no results"), [](const Fidelity&) { return ""; }));
    for (const std::string& note : reasons(group)) tables[first].notes.push_back(note);
  }
  return tables;
}

Table fidelity_long(std::span<const Fidelity> cells) {
  Table table{.title = "Fidelity", .columns = {}, .rows = {}, .notes = {}};
  for (const char* column : kFidelityColumns) table.columns.push_back({column});
  for (const Fidelity& f : cells) {
    if (f.measures.empty()) table.rows.push_back(long_row(f, "", nullptr));
    for (const auto& [name, estimate] : f.measures)
      table.rows.push_back(long_row(f, name, &estimate));
  }
  return table;
}

std::map<std::string, std::string> fidelity_plots(std::span<const Fidelity> cells) {
  std::map<std::string, std::string> scripts;
  std::map<int64_t, int> counts;  // settings of an experiment so far
  for (const auto& [setting, group] : grouped(cells)) {
    const Fidelity& front = *group.cells.front();
    const std::string stem =
        fmt::format("fidelity-{}-{}", front.experiment, ++counts[front.experiment]);
    // Landmarks on raw scores break at the head width, and iterations are few: a linear axis.
    const bool log_x = front.experiment == 2 || front.experiment == 4;
    const auto add = [&](const std::string& name, const MeasureName& measure,
                         const std::string& x_title, bool log, const auto& x) {
      const std::vector<PlotSeries> series = series_of(group, measure.name, x);
      if (series.empty()) return;
      scripts[name] = plot_script({.name = name,
                                   .title = {heading(front), setting_text(front)},
                                   .x_title = x_title,
                                   .y_title = std::string(measure.title),
                                   .log_x = log,
                                   .x_marks = {},
                                   .series = series});
    };
    for (const MeasureName& measure : kMeasures) {
      if (measure.name == "condition") continue;
      add(fmt::format("{}-{}", stem, measure.name), measure, group.budget, log_x,
          [](const Fidelity& f) {
            return f.budget.empty() ? std::nullopt
                                    : std::optional<double>(static_cast<double>(f.budget_value));
          });
      if (measure.name == "output") {
        add(fmt::format("{}-time", stem), measure, "time of one forward, ms", true,
            [](const Fidelity& f) {
              return f.time ? std::optional<double>(f.time->median) : std::nullopt;
            });
      }
    }
  }
  return scripts;
}

}  // namespace lra
