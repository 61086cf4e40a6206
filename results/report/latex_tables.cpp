#include "results/report/latex_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "results/analysis/profile_cells.h"
#include "results/print/latex.h"
#include "results/tables/accuracy_table.h"
#include "results/tables/profile_table.h"

namespace lra {
namespace {

std::string numbered(const std::string& label, size_t i) {
  return i == 0 ? label : fmt::format("{}-{}", label, i + 1);
}

// The rows as lines, for comments.
void note_rows(const Table& exact, std::vector<std::string>& notes) {
  for (const auto& row : exact.rows) {
    std::vector<std::string> cells;
    for (size_t c = 1; c < row.size(); ++c) cells.push_back(exact.columns[c].header + " " + row[c]);
    notes.push_back(fmt::format("{}: {}", row[0], fmt::join(cells, "; ")));
  }
}

// What signs in the cells mean, of those that are there.
std::string cell_signs(const Table& table) {
  const auto any = [&](const char* sign) {
    return std::ranges::any_of(table.rows, [&](const std::vector<std::string>& row) {
      return std::ranges::any_of(row, [&](const std::string& text) {
        return text.find("±") != std::string::npos && text.find(sign) != std::string::npos;
      });
    });
  };
  std::string text;
  if (any(" n="))
    text +=
        " n: seeds, whose interval is by them and by the sampling of their test set; "
        "else it is Wilson's of one run.";
  if (any("/")) text += " (2/3: x): as many learned the task, and their mean is x.";
  if (any(kUnlearnedMark)) text += fmt::format(" {}: not learned.", kUnlearnedMark);
  if (any(kFailedMark)) text += fmt::format(" {}: further seeds failed.", kFailedMark);
  return text;
}

// In a column there is room for neither signs nor long words.
void shorten(Table& table) {
  const auto replace = [](std::string& text, std::string_view what, std::string_view with) {
    if (text.ends_with(what)) text.replace(text.size() - what.size(), what.size(), with);
  };
  for (Column& column : table.columns) {
    replace(column.header, " %", "");
    if (column.header.starts_with("average of "))
      column.header = column.header.ends_with(kStandInMark) ? "average*" : "average";
  }
  for (auto& row : table.rows) {
    if (row[0].ends_with(kPublishedRow)) row[0] = "– published";
    if (row[0] == "(most frequent label)") row[0] = "most frequent";
    if (row[0] == "(chance)") row[0] = "chance";
  }
}

using Number = std::optional<std::pair<double, double>>;  // value and the longer side of its ci

struct CostColumn {
  const char* what;
  const char* label;
  bool of_time;  // which alone can be noisy
  std::optional<double> (*compared)(const Profile&);
  Number (*value)(const Profile&);

  bool noisy(const Profile& p) const { return of_time && !p.noisy.empty(); }
};

constexpr CostColumn kCosts[] = {
    {"Peak memory in MiB", "lra-memory", /*of_time=*/false, memory_cost,
     [](const Profile& p) -> Number {
       if (!p.memory->peak) return std::nullopt;
       return std::pair(*p.memory->peak, 0.0);
     }},
    {"Time in ms", "lra-time", /*of_time=*/true, time_cost,
     [](const Profile& p) -> Number {
       const double median = p.time->median;
       const auto ci = shown_interval(p);
       if (!ci) return std::pair(median, 0.0);
       return std::pair(median, std::max(median - ci->low, ci->high - median));
     }},
};

// Two significant digits, without an exponent where that is short: 0.08, 11, 110.
std::string half_width_text(double side) {
  if (side < 1) return fmt::format("{:.2g}", side);
  const double digit = std::pow(10, std::floor(std::log10(side)) - 1);
  const double rounded = std::round(side / digit) * digit;
  return rounded < 100 ? fmt::format("{:.2g}", side) : short_number(rounded);
}

// "~59.3±23"; the status, or "–" where there is none.
std::string cost_text(const Profile* p, const CostColumn& cost) {
  if (!measured(p)) return p == nullptr ? "–" : to_string(p->status);
  const Number number = cost.value(*p);
  if (!number) return "–";
  const auto [value, side] = *number;
  return fmt::format("{}{}{}{}", cost.noisy(*p) ? "~" : "", short_number(value), batch_mark(*p),
                     side > 0 ? "±" + half_width_text(side) : "");
}

// The lowest of each length but for what is noisy, where there are several attentions.
void mark_lowest(const ProfileGroup& group, const CostColumn& cost, Table& table) {
  if (group.rows.size() < 2) return;
  size_t column = 0;
  for (const int64_t length : group.lengths) {
    ++column;
    std::vector<std::pair<double, size_t>> values;  // and the row
    size_t row = 0;
    for (const auto& [name, cells] : group.rows) {
      const Profile* p = group.at(name, length);
      const bool quiet = measured(p) && !cost.noisy(*p);
      if (const auto number = quiet ? cost.compared(*p) : std::nullopt)
        values.emplace_back(*number, row);
      ++row;
    }
    for (const auto& [value, at] : values) {
      if (value == std::ranges::min(values).first) table.bold.emplace(at, column);
    }
  }
}

Table cost_table(const ProfileGroup& group, const CostColumn& cost) {
  Table table{.columns = {{"attention", Align::kLeft}}};
  for (const int64_t length : group.lengths) table.columns.push_back({fmt::format("{}", length)});
  bool noisy = false;
  for (const auto& [name, cells] : group.rows) {
    std::vector<std::string> row{name};
    for (const int64_t length : group.lengths) {
      const Profile* p = group.at(name, length);
      row.push_back(cost_text(p, cost));
      noisy |= measured(p) && cost.noisy(*p);
    }
    table.rows.push_back(std::move(row));
  }
  mark_lowest(group, cost, table);
  table.title = fmt::format("{} by sequence length, {}. Bold: the lowest{}{}.{}", cost.what,
                            group.setting, group.per_sample(), noisy ? " that is not noisy" : "",
                            noisy ? " ~: noisy, and maybe off by more than its interval." : "");
  return table;
}

}  // namespace

std::string accuracy_latex(std::span<const Result> results, std::span<const Published> references) {
  const std::vector<Table> exact = accuracy_tables(results, references);
  std::vector<Table> tables = accuracy_tables(results, references, IntervalText::half_width);
  const std::vector<RecipeGroup> groups = group_by_recipe(results);
  std::string text;
  for (size_t i = 0; i < tables.size(); ++i) {
    Table& table = tables[i];
    constexpr std::string_view kBefore = "Accuracy: ";
    const bool passed_over = has_lone_seeds(accuracy_cells(groups[i]));
    const bool stand_in = std::ranges::any_of(table.columns, [](const Column& column) {
      return column.header.ends_with(std::string(kStandInMark) + " %");
    });
    table.title =
        fmt::format("Test accuracy in %, with the longer side of its 95 % interval; {}.{}{}{}",
                    table.title.substr(kBefore.size()), stand_in ? " *: stand-in data." : "",
                    table.bold.empty() ? ""
                    : passed_over ? " Bold: the highest of several seeds, all of which learned."
                                  : " Bold: the highest that every seed learned.",
                    cell_signs(table));
    table.notes = {exact[i].title};
    note_rows(exact[i], table.notes);
    table.notes.insert(table.notes.end(), exact[i].notes.begin(), exact[i].notes.end());
    shorten(table);
    text += (text.empty() ? "" : "\n") + to_latex(table, numbered("lra-accuracy", i));
  }
  return text;
}

std::string memory_time_latex(std::span<const Profile> profiles,
                              std::span<const Published> references) {
  const std::vector<Table> exact = memory_time_tables(profiles, references);
  std::string text;
  size_t i = 0;
  for (const ProfileGroup& group : group_profiles(profiles)) {
    for (const CostColumn& cost : kCosts) {
      Table table = cost_table(group, cost);
      if (cost.label == kCosts[0].label) {
        table.notes = {exact[i].title};
        note_rows(exact[i], table.notes);
        table.notes.insert(table.notes.end(), exact[i].notes.begin(), exact[i].notes.end());
      }
      text += (text.empty() ? "" : "\n") + to_latex(table, numbered(cost.label, i));
    }
    ++i;
  }
  return text;
}

std::string wide_latex(std::span<const Table> tables, const std::string& label) {
  std::string text;
  for (size_t i = 0; i < tables.size(); ++i)
    text += (i == 0 ? "" : "\n") + to_latex(tables[i], numbered(label, i), /*wide=*/true);
  return text;
}

}  // namespace lra
