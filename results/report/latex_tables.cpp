#include "results/report/latex_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
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
    text += " n: seeds, of which the interval is Student's, else Wilson's of one run.";
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
  Number (*value)(const Profile&);
};

constexpr CostColumn kCosts[] = {
    {"Peak memory in MiB", "lra-memory",
     [](const Profile& p) -> Number {
       if (!p.memory->peak) return std::nullopt;
       return std::pair(*p.memory->peak, 0.0);
     }},
    {"Time in ms", "lra-time",
     [](const Profile& p) -> Number {
       const double median = p.time->median;
       if (!p.time->ci95) return std::pair(median, 0.0);
       return std::pair(median, std::max(median - p.time->ci95->low, p.time->ci95->high - median));
     }},
};

Table cost_table(const ProfileGroup& group, const CostColumn& cost) {
  Table table{.title = fmt::format("{} by sequence length, {}. Bold: the lowest.", cost.what,
                                   setting_text(*group.front)),
              .columns = {{"attention", Align::kLeft}},
              .rows = {},
              .notes = {}};
  std::map<int64_t, double> lowest;
  for (const int64_t length : group.lengths) table.columns.push_back({fmt::format("{}", length)});
  for (const auto& [name, cells] : group.rows) {
    std::vector<std::string> row{name};
    for (const int64_t length : group.lengths) {
      const Profile* p = group.at(name, length);
      if (!measured(p)) {
        row.push_back(p == nullptr ? "–" : to_string(p->status));
        continue;
      }
      const Number number = cost.value(*p);
      if (!number) {
        row.emplace_back("–");
        continue;
      }
      const auto [value, side] = *number;
      row.push_back(short_number(value) + (side > 0 ? fmt::format("±{:.2g}", side) : ""));
      const auto [it, is_new] = lowest.try_emplace(length, value);
      if (!is_new) it->second = std::min(it->second, value);
    }
    table.rows.push_back(std::move(row));
  }
  size_t r = 0;
  for (const auto& [name, cells] : group.rows) {
    size_t c = 0;
    for (const int64_t length : group.lengths) {
      ++c;
      const Profile* p = group.at(name, length);
      if (group.rows.size() > 1 && measured(p) && cost.value(*p) &&
          cost.value(*p)->first == lowest.at(length))
        table.bold.emplace(r, c);
    }
    ++r;
  }
  return table;
}

}  // namespace

std::string accuracy_latex(std::span<const Result> results, std::span<const Published> references) {
  const std::vector<Table> exact = accuracy_tables(results, references);
  std::vector<Table> tables = accuracy_tables(results, references, IntervalText::half_width);
  std::string text;
  for (size_t i = 0; i < tables.size(); ++i) {
    Table& table = tables[i];
    constexpr std::string_view kBefore = "Accuracy: ";
    const bool stand_in = std::ranges::any_of(table.columns, [](const Column& column) {
      return column.header.ends_with(std::string(kStandInMark) + " %");
    });
    table.title = fmt::format(
        "Test accuracy in %, with the longer side of its 95 % interval; {}.{}{}{}",
        table.title.substr(kBefore.size()), stand_in ? " *: stand-in data." : "",
        table.bold.empty() ? "" : " Bold: the highest that every seed learned.", cell_signs(table));
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
