#include "results/tables/fidelity_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "results/print/table.h"
#include "results/tables/fidelity_groups.h"

namespace lra {
namespace {

std::string title_text(const FidelityGroup& group, std::string_view what) {
  return fmt::format("{}: {}; {}", fidelity_heading(*group.cells.front()), what,
                     fidelity_setting_text(group));
}

bool any(const FidelityGroup& group, const auto& holds) {
  return std::ranges::any_of(group.cells, [&](const Fidelity* f) { return holds(*f); });
}

std::vector<int64_t> shown_values(const FidelityGroup& group) {
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

std::string estimate_text(const TrialEstimate& estimate) {
  const std::string text = short_number(estimate.mean);
  if (!estimate.ci95) return text;
  return text + " ± " + short_number(estimate.ci95->high - estimate.mean);
}

std::vector<std::string> reasons(const FidelityGroup& group) {
  std::map<std::string, std::set<std::string>> texts;  // by status
  for (const Fidelity* f : group.cells) {
    if (f->status == Status::ok || f->reason.empty()) continue;
    const std::string budget =
        f->budget.empty() ? "" : fmt::format(" at {}={}", f->budget, f->budget_value);
    texts[to_string(f->status)].insert(f->attention.label + budget + ": " + f->reason);
  }
  return first_of_each(texts);
}

// A table of the rows for which `text` has something to say in some cell.
template <class Text>
Table budget_table(const FidelityGroup& group, const std::string& title, const Text& text) {
  Table table{.title = title, .columns = {{"attention", Align::kLeft}}};
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

}  // namespace

std::vector<Table> fidelity_tables(std::span<const Fidelity> cells) {
  std::vector<Table> tables;
  for (const auto& [setting, group] : fidelity_groups(cells)) {
    const size_t first = tables.size();
    for (const MeasureName& measure : kMeasures) {
      if (!any(group, [&](const Fidelity& f) { return f.find(measure.name) != nullptr; })) continue;
      const bool spread = measure.name == "condition";
      tables.push_back(
          budget_table(group, title_text(group, measure.title), [&](const Fidelity& f) {
            const TrialEstimate* e = f.find(measure.name);
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
          budget_table(group, title_text(group, "time and memory"), [](const Fidelity& f) {
            if (!f.time || !f.memory) return std::string("–");
            return (f.memory->peak ? short_number(*f.memory->peak) : "–") + " / " +
                   short_number(f.time->median);
          }));
      tables.back().notes.push_back(
          "a cell is MiB / ms: peak of live tensors above inputs and weights, and median time");
    }
    if (tables.size() == first)  // nothing came of any cell
      tables.push_back(
          budget_table(group, title_text(group, "no results"), [](const Fidelity&) { return ""; }));
    if (group.repeated)
      tables[first].notes.emplace_back(
          "a cell that was measured more than once shows its last line");
    for (const std::string& note : reasons(group)) tables[first].notes.push_back(note);
  }
  return tables;
}

}  // namespace lra
