#include "results/tables/profile_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "results/analysis/profile_cells.h"
#include "results/analysis/profile_method.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

struct Verdict {
  std::string text;
  bool worse = false;
};

Verdict time_verdict(const std::optional<stats::Estimate>& ratio, bool few, double tolerance) {
  const double high = 1 + tolerance, low = 1 / high;
  if (!ratio || few) return {"ambiguous"};
  if (ratio->ci95.low > high) return {"slower", true};
  if (ratio->ci95.high < low) return {"faster"};
  if (ratio->ci95.low >= low && ratio->ci95.high <= high) return {"same"};
  return {"ambiguous"};
}

Verdict memory_verdict(const std::optional<double>& before, const std::optional<double>& now,
                       double tolerance) {
  if (!before || !now || *before <= 0) return {""};
  if (*now > *before * (1 + tolerance)) return {"more memory", true};
  if (*now * (1 + tolerance) < *before) return {"less memory"};
  return {""};
}

std::string memory_ratio(const Profile& before, const Profile& now) {
  if (!now.memory->peak || !(before.memory->peak.value_or(0) > 0)) return "–";
  return fmt::format("{:.3f}", *now.memory->peak / *before.memory->peak);
}

std::string row_name(const Profile& p) {
  return p.package.empty() ? p.attention.label
                           : fmt::format("{} ({})", p.attention.label, p.package);
}

// Fills in what both say of a cell.
void add_compared(const Profile& old, const Profile& now, double tolerance,
                  Comparison& comparison) {
  std::vector<std::string> row = {row_name(now), fmt::format("{}", now.length), setting_text(now)};
  if (!measured(&old) || !measured(&now)) {
    const bool fails = measured(&old) && !measured(&now);
    row.insert(row.end(),
               {measured(&old) ? short_number(old.time->median) : to_string(old.status),
                measured(&now) ? short_number(now.time->median) : to_string(now.status), "–", "–",
                fails            ? "fails"
                : measured(&now) ? "runs now"
                                 : "–"});
    comparison.worse += fails ? 1 : 0;
  } else {
    const std::optional<stats::Estimate> ratio = time_ratio(now, old);
    const bool few = !has_interval(old) || !has_interval(now);
    const Verdict time = time_verdict(ratio, few, tolerance),
                  memory = memory_verdict(old.memory->peak, now.memory->peak, tolerance);
    const bool noisy = *noise_mark(now, old) != 0;
    row.insert(row.end(), {short_number(old.time->median), short_number(now.time->median),
                           !ratio ? "–"
                           : few  ? fmt::format("{:.3f}", ratio->value)
                                  : fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio->value,
                                                ratio->ci95.low, ratio->ci95.high),
                           memory_ratio(old, now),
                           time.text + (memory.text.empty() ? "" : ", " + memory.text) +
                               (noisy ? " (noisy)" : "")});
    comparison.worse += time.worse || memory.worse ? 1 : 0;
  }
  comparison.table.rows.push_back(std::move(row));
}

// "standard at 512 (and 3 more)"; "" of none.
std::string first_of(const std::vector<std::string>& names) {
  return names.empty() ? "" : names[0] + and_more(names.size());
}

std::string cell_name(const Profile& p) { return fmt::format("{} at {}", row_name(p), p.length); }

// Where all cells have one setting it stands in the title.
void move_setting(Table& table) {
  const bool one =
      std::ranges::all_of(table.rows, [&](const auto& row) { return row[2] == table.rows[0][2]; });
  if (!one || table.rows.empty()) return;
  table.title += ": " + table.rows[0][2];
  table.columns.erase(table.columns.begin() + 2);
  for (auto& row : table.rows) row.erase(row.begin() + 2);
}

// The cell by the options in effect, however the attention is spelled.
std::string identity_by_options(Profile p) {
  p.attention.label = p.attention.name + json_line(p.attention.options);
  return identity(p);
}

// Those of other packages have options of their own, which records do not hold.
bool says_options(const Profile& p) { return p.package.empty() && !p.attention.options.empty(); }

// Cells by how they are spelled, and where none is spelled so, by their options.
class KnownCells {
 public:
  explicit KnownCells(std::span<const Profile> cells) {
    for (const Profile& p : cells) {
      spelled_[identity(p)].push_back(&p);
      if (says_options(p)) meant_[identity_by_options(p)].push_back(&p);
    }
  }
  /// In their order; empty where there are none.
  std::vector<const Profile*> of(const Profile& p) const {
    const auto spelled = spelled_.find(identity(p));
    if (spelled != spelled_.end()) return spelled->second;
    if (!says_options(p)) return {};
    const auto meant = meant_.find(identity_by_options(p));
    return meant == meant_.end() ? std::vector<const Profile*>() : meant->second;
  }

 private:
  std::map<std::string, std::vector<const Profile*>> spelled_, meant_;
};

// Cells of one of the two files alone.
void add_unmatched(std::span<const Profile> before, std::span<const Profile> now, Table& table) {
  const auto missing = [](std::span<const Profile> cells, std::span<const Profile> elsewhere) {
    const KnownCells known(elsewhere);
    std::vector<std::string> names;
    for (const Profile& p : cells) {
      if (known.of(p).empty()) names.push_back(cell_name(p));
    }
    return first_of(names);
  };
  if (const std::string names = missing(now, before); !names.empty())
    table.notes.push_back("not measured before: " + names);
  if (const std::string names = missing(before, now); !names.empty())
    table.notes.push_back("measured before alone, or not asked for now: " + names);
}

// In what two measurements of a cell differ so that they are not compared; "" = in nothing.
std::string apart_text(const Profile& old, const Profile& now) {
  const std::string values = other_values(setup_marks(old), setup_marks(now));
  if (!values.empty()) return fmt::format("protocol {}, {}", now.protocol, values);
  const std::string options = other_options(old, now);
  return options.empty() ? "" : "option " + options;
}

}  // namespace

Comparison compare_profiles(std::span<const Profile> before, std::span<const Profile> now,
                            double tolerance) {
  const KnownCells known(before);
  Comparison comparison;
  comparison.table = {
      .title = "Time now / before",
      .columns = {{"attention", Align::kLeft},
                  {"length"},
                  {"setting", Align::kLeft},
                  {"before, ms"},
                  {"now, ms"},
                  {"ratio [95 % interval]"},
                  {"memory ratio"},
                  {"verdict", Align::kLeft}},
      .notes = {fmt::format(
          "slower (faster): the ratio's whole interval is beyond {:g} % of change; same: within "
          "it; ambiguous: neither, or fewer than {} samples; measure longer",
          100 * tolerance, stats::kFewestSamples)}};
  Table& table = comparison.table;
  std::map<std::string, std::vector<std::string>> apart, cpus, methods;  // in what -> cells
  for (const Profile& p : now) {
    const std::vector<const Profile*> all = known.of(p);
    if (all.empty()) continue;
    const auto old = std::find_if(all.rbegin(), all.rend(),
                                  [&](const Profile* one) { return apart_text(*one, p).empty(); });
    if (old == all.rend()) {
      apart[apart_text(*all.back(), p)].push_back(cell_name(p));
      continue;
    }
    if (const std::string text = other_cpu(setup_marks(**old), setup_marks(p)); !text.empty())
      cpus[text].push_back(cell_name(p));
    if (const std::string text = other_method(**old, p); !text.empty())
      methods[text].push_back(cell_name(p));
    add_compared(**old, p, tolerance, comparison);
  }
  move_setting(table);
  for (const auto& [text, cells] : cpus)
    table.notes.push_back(
        fmt::format("another processor, or other kernels of it: {}: {}", first_of(cells), text));
  for (const auto& [text, cells] : methods)
    table.notes.push_back(fmt::format("measured otherwise: {}: {}", first_of(cells), text));
  for (const auto& [text, cells] : apart) {
    comparison.apart.push_back(fmt::format("{}: {}", first_of(cells), text));
    table.notes.push_back("not compared, of another setting: " + comparison.apart.back());
  }
  add_unmatched(before, now, table);
  return comparison;
}

}  // namespace lra
