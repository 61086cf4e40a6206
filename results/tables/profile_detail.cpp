// The tables behind the one of memory and time: ratios, crossings, the roofline, other packages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "results/analysis/profile_cells.h"
#include "results/tables/profile_table.h"

namespace lra {
namespace {

// A cell's text; "" where it has nothing to say.
using Text = std::function<std::string(const std::string& row, const Profile&)>;

// Rows with nothing to say are left out, and so is a table without rows.
void add_table(const std::string& title, const ProfileGroup& group, const Text& text,
               std::vector<std::string> notes, std::vector<Table>& tables) {
  Table table{.title = fmt::format("{}: {}", title, group.setting),
              .columns = {{"attention", Align::kLeft}},
              .notes = std::move(notes)};
  for (const int64_t length : group.lengths) table.columns.push_back({fmt::format("{}", length)});
  for (const auto& [name, cells] : group.rows) {
    std::vector<std::string> row{name};
    bool any = false;
    for (const int64_t length : group.lengths) {
      const Profile* p = group.at(name, length);
      std::string cell = measured(p) ? text(name, *p) : p == nullptr ? "–" : to_string(p->status);
      any |= measured(p) && !cell.empty();
      row.push_back(cell.empty() ? "–" : std::move(cell));
    }
    if (any) table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) tables.push_back(std::move(table));
}

// " (0.5×)" for one baseline, " (0.5×, 2.1×)" for more; "" for a baseline's own row where it is
// alone.
std::string ratios(const ProfileGroup& group, const std::vector<std::string>& baselines,
                   const std::string& row, int64_t length,
                   const std::function<std::string(const Profile&)>& ratio_to) {
  if (baselines.empty() || (baselines.size() == 1 && baselines[0] == row)) return "";
  std::string text;
  for (const std::string& name : baselines) {
    const Profile* base = group.at(name, length);
    std::string part = "–";
    if (measured(base)) part = ratio_to(*base);
    text += (text.empty() ? "" : ", ") + part;
  }
  return " (" + text + ")";
}

std::string baseline_note(const ProfileGroup& group, const std::vector<std::string>& baselines) {
  std::string names;
  for (const std::string& name : baselines) names += (names.empty() ? "" : ", then to ") + name;
  return fmt::format("(r×): ratio to {} at the same length{}", names, group.per_sample());
}

void add_memory(const ProfileGroup& group, const std::vector<std::string>& baselines,
                std::vector<Table>& tables) {
  std::vector<std::string> notes;
  if (!baselines.empty()) notes.push_back(baseline_note(group, baselines));
  add_table(
      "Peak memory, MiB", group,
      [&](const std::string& row, const Profile& p) {
        if (!p.memory->peak) return std::string("–");
        return short_number(*p.memory->peak) +
               ratios(group, baselines, row, p.length, [&](const Profile& base) -> std::string {
                 const auto own = memory_cost(p), other = memory_cost(base);
                 return own && other ? short_number(*own / *other) + "×" : "–";
               });
      },
      notes, tables);
}

void add_time(const ProfileGroup& group, const std::vector<std::string>& baselines,
              std::vector<Table>& tables) {
  std::vector<std::string> notes = {"~: noisy"};
  if (!baselines.empty()) notes.push_back(baseline_note(group, baselines));
  add_table(
      "Time, ms, median [95 % interval]", group,
      [&](const std::string& row, const Profile& p) {
        std::string text =
            fmt::format("{}{}", p.noisy.empty() ? "" : "~", short_number(p.time->median));
        if (const auto ci = shown_interval(p))
          text += fmt::format(" [{}, {}]", short_number(ci->low), short_number(ci->high));
        return text +
               ratios(group, baselines, row, p.length, [&](const Profile& base) -> std::string {
                 const auto own = time_cost(p), other = time_cost(base);
                 if (!own || !other) return "–";
                 return noise_mark(p, base) + short_number(*own / *other) + "×";
               });
      },
      notes, tables);
  if (baselines.empty()) return;
  // The ratios' own intervals, to the first baseline.
  add_table(
      fmt::format("Time{} as a ratio to {} [95 % interval]", group.per_sample(), baselines[0]),
      group,
      [&](const std::string& row, const Profile& p) -> std::string {
        const Profile* base = group.at(baselines[0], p.length);
        if (row == baselines[0] || !measured(base)) return "";
        const std::optional<stats::Estimate> ratio = time_ratio(p, *base);
        if (!ratio) return "";
        const std::string text = noise_mark(p, *base) + short_number(ratio->value);
        if (!has_interval(p) || !has_interval(*base)) return text;
        return fmt::format("{} [{}, {}]", text, short_number(ratio->ci95.low),
                           short_number(ratio->ci95.high));
      },
      {"~: noisy", "bootstrap over processes and samples, both cells drawn independently"}, tables);
}

// Of a measured cell; absent where it has none.
using CellCost = std::optional<double> (*)(const Profile&);

std::string crossing_text(const ProfileGroup& group, const std::string& row,
                          const std::string& baseline, CellCost cost) {
  std::vector<double> lengths, own, other;
  std::string mark;
  for (const int64_t length : group.lengths) {
    const Profile *p = group.at(row, length), *base = group.at(baseline, length);
    if (!measured(p) || !measured(base) || !cost(*p) || !cost(*base)) continue;
    lengths.push_back(static_cast<double>(length));
    own.push_back(*cost(*p));
    other.push_back(*cost(*base));
    if (cost == time_cost && *noise_mark(*p, *base) != 0) mark = "~";
  }
  if (lengths.empty()) return "–";
  const stats::Crossing at = stats::crossing(lengths, own, other);
  switch (at.kind) {
    case stats::Crossing::Kind::always:
      return fmt::format("{}<= {:.0f}", mark, lengths.front());
    case stats::Crossing::Kind::never:
      return fmt::format("{}> {:.0f}", mark, lengths.back());
    case stats::Crossing::Kind::from:
      break;
  }
  return fmt::format("{}{:.0f}", mark, at.length);
}

void add_crossings(const ProfileGroup& group, const std::vector<std::string>& baselines,
                   std::vector<Table>& tables) {
  if (baselines.empty() || group.lengths.size() < 2) return;
  Table table{.title = fmt::format("Length from which on it costs less{}: {}", group.per_sample(),
                                   group.setting),
              .columns = {{"attention", Align::kLeft}},
              .notes = {"between measured lengths interpolated on logarithmic axes; <=: at the "
                        "shortest measured already; >: not up to the longest at which both ran; "
                        "~: of a noisy time"}};
  for (const std::string& name : baselines) {
    table.columns.push_back({fmt::format("time, below {}", name)});
    table.columns.push_back({fmt::format("memory, below {}", name)});
  }
  for (const auto& [row, cells] : group.rows) {
    std::vector<std::string> line{row};
    for (const std::string& name : baselines) {
      const auto add = [&](CellCost cost) {
        line.push_back(row == name ? "–" : crossing_text(group, row, name, cost));
      };
      add(time_cost);
      add(memory_cost);
    }
    table.rows.push_back(line);
  }
  tables.push_back(table);
}

// A training step is counted as three forwards: its backward does each product twice over.
double work_of(const Profile& p) { return *p.flops * (p.mode == ProfileMode::training ? 3 : 1); }

// "this machine: 155 GFLOP/s, 12.6 GB/s", or ranges where it was measured several times.
std::string roofline_text(const ProfileGroup& group) {
  std::vector<double> rates, bandwidths;
  for (const auto& [name, cells] : group.rows) {
    for (const auto& [length, p] : cells) {
      if (!p->roofline) continue;
      rates.push_back(p->roofline->gflops);
      bandwidths.push_back(p->roofline->gigabytes_per_second);
    }
  }
  if (rates.empty()) return "no roofline was measured";
  const auto range = [](const std::vector<double>& values) {
    const auto [low, high] = std::ranges::minmax(values);
    const std::string from = short_number(low), to = short_number(high);
    return from == to ? from : from + " to " + to;
  };
  return fmt::format("this machine: {} GFLOP/s, {} GB/s", range(rates), range(bandwidths));
}

void add_roofline(const ProfileGroup& group, std::vector<Table>& tables) {
  add_table(
      "GFLOP, GFLOP/s, part of the roofline", group,
      [](const std::string&, const Profile& p) -> std::string {
        if (!p.flops || !(p.time->median > 0)) return "";
        const double work = work_of(p), rate = work / p.time->median / 1e6;  // GFLOP/s
        if (!std::isfinite(rate)) return "";
        const char* mark = p.noisy.empty() ? "" : "~";
        std::string text =
            fmt::format("{}, {}{}", short_number(work / 1e9), mark, short_number(rate));
        if (p.roofline && p.least_bytes && *p.least_bytes > 0) {
          const double most = attainable_gflops(*p.roofline, *p.flops, *p.least_bytes);
          const double part = 100 * rate / most;
          if (!std::isfinite(part)) return text;
          text += fmt::format(", {}{} % ({})", mark,
                              part < 1e6 ? fmt::format("{:.0f}", part) : short_number(part),
                              most < p.roofline->gflops ? "memory" : "arithmetic");
        }
        return text;
      },
      {"operations as the variant's own account says, and the products of the layers around it (a "
       "multiply-add is 2; training: three forwards; softmax and other pointwise work not counted)",
       "roofline: the lower of this machine's measured matrix-product rate (arithmetic) and its "
       "measured copy bandwidth times the operations per byte that must be moved, inputs, weights "
       "and output once each (memory)",
       roofline_text(group)},
      tables);
}

void add_accounts(const ProfileGroup& group, std::vector<Table>& tables) {
  add_table(
      "Memory as counted and by the variant's own account, MiB", group,
      [](const std::string&, const Profile& p) -> std::string {
        if (!p.memory->analytic || !p.memory->peak) return "";
        return fmt::format("{} / {}", short_number(*p.memory->peak),
                           short_number(*p.memory->analytic));
      },
      {}, tables);
  add_table(
      "Memory of weights / optimizer / whole process, MiB", group,
      [](const std::string&, const Profile& p) -> std::string {
        if (!p.memory->process_peak) return "";
        const auto text = [](const std::optional<double>& value) {
          return value ? short_number(*value) : std::string("–");
        };
        return fmt::format("{} / {} / {}", text(p.memory->parameters), text(p.memory->optimizer),
                           text(p.memory->process_peak));
      },
      {"whole process: the most that was resident (VmHWM), program and libraries included"},
      tables);
}

void add_packages(const ProfileGroup& group, std::vector<Table>& tables) {
  // This program's row of the same label.
  const auto ours = [&](const Profile& p) -> const Profile* {
    for (const auto& [name, cells] : group.rows) {
      const Profile* own = group.at(name, p.length);
      if (measured(own) && own->package.empty() && own->attention.label == p.attention.label)
        return own;
    }
    return nullptr;
  };
  add_table(
      "Here / the package: time, memory", group,
      [&](const std::string&, const Profile& p) -> std::string {
        if (p.package.empty()) return "";
        const Profile* own = ours(p);
        if (own == nullptr || !time_cost(p) || !time_cost(*own) || !memory_cost(p) ||
            !memory_cost(*own))
          return "";
        return fmt::format("{}{}×, {}×", noise_mark(*own, p),
                           short_number(*time_cost(*own) / *time_cost(p)),
                           short_number(*memory_cost(*own) / *memory_cost(p)));
      },
      {"~: noisy",
       "below 1: this program takes less; the package's own numbers stand in the tables above"},
      tables);
}

}  // namespace

std::vector<Table> profile_tables(std::span<const Profile> profiles,
                                  std::span<const Published> references) {
  std::vector<Table> tables;
  for (const ProfileGroup& group : group_profiles(profiles)) {
    const std::vector<std::string> baselines = group.baselines(references);
    add_memory(group, baselines, tables);
    add_time(group, baselines, tables);
    add_crossings(group, baselines, tables);
    add_roofline(group, tables);
    add_accounts(group, tables);
    add_packages(group, tables);
  }
  return tables;
}

}  // namespace lra
