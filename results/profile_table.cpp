// Groups profile cells by what they were measured with and prints them beside the published
// numbers.
#include "results/profile_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "results/statistics.h"

namespace lra {
namespace {

// What must be equal for two cells to be compared.
using Setting = std::tuple<std::string, std::string, int64_t, int64_t, int64_t, std::string,
                           std::string, int64_t, std::string>;

Setting setting_of(const Profile& p) {
  return {p.scope,
          p.mode,
          p.batch,
          p.heads,
          p.head_dim,
          p.dtype,
          p.device,
          p.threads.value_or(0),
          machine_text(p.machine)};
}

struct Group {
  std::vector<const Profile*> cells;
  std::set<int64_t> lengths;
  std::map<std::string, std::map<int64_t, const Profile*>> rows;  // by row name, then length
  bool repeated = false;
};

std::map<Setting, Group> grouped(std::span<const Profile> profiles) {
  std::map<Setting, Group> groups;
  for (const Profile& p : profiles) groups[setting_of(p)].cells.push_back(&p);
  for (auto& [setting, group] : groups) {
    // A label that was measured with several sets of options is several rows.
    std::map<std::string, std::vector<const json*>> options;
    for (const Profile* p : group.cells) {
      auto& known = options[p->attention.label];
      const auto same = [p](const json* other) { return *other == p->attention.options; };
      if (std::none_of(known.begin(), known.end(), same)) known.push_back(&p->attention.options);
    }
    for (const Profile* p : group.cells) {
      const auto& known = options[p->attention.label];
      std::string name = p->attention.label;
      if (known.size() > 1) name.append(" ").append(dumped(p->attention.options));
      const Profile*& place = group.rows[name][p->length];
      group.repeated |= place != nullptr;
      place = p;  // the later line stands: a resumed profile appends
      group.lengths.insert(p->length);
    }
  }
  return groups;
}

std::string setting_text(const Setting& setting) {
  const auto& [scope, mode, batch, heads, head_dim, dtype, device, threads, machine] = setting;
  const std::string with =
      threads > 0 ? fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s") : "";
  return fmt::format("{}, {}, batch {}, {} heads of {}, {}, {}{}, on {}", scope, mode, batch, heads,
                     head_dim, dtype, device, with, machine);
}

bool measured(const Profile* p) {
  return p != nullptr && p->status == "ok" && p->time && p->memory;
}

bool comparable(const PublishedCost& cost, const Setting& setting) {
  const auto& [scope, mode, batch, heads, head_dim, dtype, device, threads, machine] = setting;
  return cost.time_unit == "ms" &&
         std::find(cost.scopes.begin(), cost.scopes.end(), scope) != cost.scopes.end() &&
         cost.mode == mode && cost.batch == batch && cost.heads == heads &&
         cost.head_dim == head_dim;
}

std::string growth_text(const std::vector<double>& lengths, const std::vector<double>& memory,
                        const std::vector<double>& time) {
  const auto text = [](const std::optional<double>& exponent) {
    return exponent ? fmt::format("N^{:.2f}", *exponent) : std::string("–");
  };
  return text(growth_exponent(lengths, memory)) + " / " + text(growth_exponent(lengths, time));
}

std::string cost_name(const Published& reference) {
  return fmt::format("{}, {}", reference.source, reference.cost->where);
}

std::string cost_shape(const PublishedCost& cost) {
  return fmt::format("{} heads of {}, batch {}, {}", cost.heads, cost.head_dim, cost.batch,
                     cost.mode);
}

// Rows of a paper at the given lengths.
void add_published_rows(const PublishedCost& cost, const std::vector<int64_t>& lengths,
                        Table& table) {
  for (const PublishedCost::Row& row : cost.rows) {
    std::vector<std::string> cells{fmt::format("{} (published, {})", row.name, cost.machine)};
    for (const int64_t length : lengths) {
      const auto it = std::find(cost.lengths.begin(), cost.lengths.end(), length);
      const auto at = static_cast<size_t>(it - cost.lengths.begin());
      cells.push_back(
          it == cost.lengths.end() ? "–" : fmt::format("{} / {}", row.memory[at], row.time[at]));
    }
    cells.push_back(growth_text({cost.lengths.begin(), cost.lengths.end()}, row.memory, row.time));
    table.rows.push_back(cells);
  }
}

Table published_table(const Published& reference) {
  const PublishedCost& cost = *reference.cost;
  Table table{
      .title = fmt::format("Published memory and time, not comparable with the profiles here: {}",
                           cost_name(reference)),
      .columns = {{"attention", Align::kLeft}},
      .rows = {},
      .notes = {fmt::format("a cell is {} / {} as printed: {}, on {}; {}", cost.memory_unit,
                            cost.time_unit, cost.what, cost.machine, cost_shape(cost))}};
  for (const int64_t length : cost.lengths) table.columns.push_back({fmt::format("{}", length)});
  table.columns.push_back({"growth"});
  add_published_rows(cost, cost.lengths, table);
  if (!cost.note.empty()) table.notes.push_back(cost.note);
  return table;
}

std::vector<std::string> failures(const Group& group) {
  std::map<std::string, std::set<std::string>> reasons;  // by status
  for (const auto& [name, cells] : group.rows) {
    for (const auto& [length, p] : cells) {
      if (p->status != "ok" && !p->reason.empty())
        reasons[p->status].insert(fmt::format("{} at {}: {}", name, length, p->reason));
    }
  }
  std::vector<std::string> notes;
  for (const auto& [status, texts] : reasons) {
    notes.push_back(
        fmt::format("{}: {}{}", status, *texts.begin(),
                    texts.size() > 1 ? fmt::format(" (and {} more)", texts.size() - 1) : ""));
  }
  return notes;
}

}  // namespace

std::vector<Table> memory_time_tables(std::span<const Profile> profiles,
                                      std::span<const Published> references) {
  std::vector<Table> tables;
  std::set<const Published*> shown;
  const auto groups = grouped(profiles);
  for (const auto& [setting, group] : groups) {
    Table table{
        .title = "Memory and time per length: " + setting_text(setting),
        .columns = {{"attention", Align::kLeft}},
        .rows = {},
        .notes = {
            "a cell is MiB / ms: peak of live tensors above inputs and weights, and median time; "
            "growth: exponents of memory / time over the row's lengths (published: all printed)"}};
    for (const int64_t length : group.lengths) table.columns.push_back({fmt::format("{}", length)});
    table.columns.push_back({"growth"});
    for (const auto& [name, cells] : group.rows) {
      std::vector<std::string> row{name};
      std::vector<double> lengths, memory, time;
      for (const int64_t length : group.lengths) {
        const auto it = cells.find(length);
        const Profile* p = it == cells.end() ? nullptr : it->second;
        if (!measured(p)) {
          row.push_back(p == nullptr ? "–" : p->status);
          continue;
        }
        row.push_back(short_number(p->memory->peak) + " / " + short_number(p->time->median));
        lengths.push_back(static_cast<double>(length));
        memory.push_back(p->memory->peak);
        time.push_back(p->time->median);
      }
      row.push_back(growth_text(lengths, memory, time));
      table.rows.push_back(row);
    }
    for (const Published& reference : references) {
      if (!reference.cost || reference.cost->time_unit != "ms") continue;
      const PublishedCost& cost = *reference.cost;
      if (comparable(cost, setting)) {
        shown.insert(&reference);
        add_published_rows(cost, {group.lengths.begin(), group.lengths.end()}, table);
        table.notes.push_back(fmt::format("published rows: {} ({}), in {} / {} as printed",
                                          cost_name(reference), cost.what, cost.memory_unit,
                                          cost.time_unit));
        table.notes.push_back(
            fmt::format("difference of machine: {} here, {} in the published rows",
                        std::get<8>(setting), cost.machine));
      } else {
        table.notes.push_back(fmt::format("{} is not comparable and stands apart: it is for {}",
                                          cost_name(reference), cost_shape(cost)));
      }
    }
    if (group.repeated)
      table.notes.push_back("a cell that was measured more than once shows its last line");
    for (const std::string& note : failures(group)) table.notes.push_back(note);
    tables.push_back(table);
  }
  for (const Published& reference : references) {
    if (groups.empty() || !reference.cost || reference.cost->time_unit != "ms" ||
        shown.contains(&reference))
      continue;
    tables.push_back(published_table(reference));
  }
  return tables;
}

std::vector<Table> profile_tables(std::span<const Profile> profiles,
                                  std::span<const Published> references) {
  std::vector<Table> tables;
  for (const auto& [setting, group] : grouped(profiles)) {
    // The first row by name that is a paper's baseline.
    std::string baseline;
    for (const auto& [name, cells] : group.rows) {
      for (const Published& reference : references) {
        if (baseline.empty() && reference.cost &&
            reference.cost->baseline.matches(cells.begin()->second->attention))
          baseline = name;
      }
    }
    const auto make = [&, &setting = setting, &group = group](const char* title, const auto& value,
                                                              const auto& text) {
      Table table{.title = fmt::format("{}: {}", title, setting_text(setting)),
                  .columns = {{"attention", Align::kLeft}},
                  .rows = {},
                  .notes = {}};
      for (const int64_t length : group.lengths)
        table.columns.push_back({fmt::format("{}", length)});
      for (const auto& [name, cells] : group.rows) {
        std::vector<std::string> row{name};
        for (const int64_t length : group.lengths) {
          const auto it = cells.find(length);
          if (it == cells.end() || !measured(it->second)) {
            row.push_back(it == cells.end() ? "–" : it->second->status);
            continue;
          }
          std::string cell = text(*it->second);
          if (!baseline.empty() && name != baseline) {
            const auto base = group.rows.at(baseline).find(length);
            const bool has = base != group.rows.at(baseline).end() && measured(base->second) &&
                             value(*base->second) > 0;
            if (has)
              cell +=
                  fmt::format(" ({}×)", short_number(value(*it->second) / value(*base->second)));
          }
          row.push_back(cell);
        }
        table.rows.push_back(row);
      }
      if (!baseline.empty())
        table.notes.push_back(fmt::format("(r×): ratio to {} at the same length", baseline));
      tables.push_back(table);
    };
    make(
        "Peak memory, MiB", [](const Profile& p) { return p.memory->peak; },
        [](const Profile& p) { return short_number(p.memory->peak); });
    make(
        "Time, ms, median [95 % interval]", [](const Profile& p) { return p.time->median; },
        [](const Profile& p) {
          const std::string median = short_number(p.time->median);
          if (!p.time->ci95) return median;
          return fmt::format("{} [{}, {}]", median, short_number(p.time->ci95->low),
                             short_number(p.time->ci95->high));
        });
  }
  return tables;
}

Table memory_time_long(std::span<const Profile> profiles, std::span<const Published> references) {
  Table table{.title = "Memory and time",
              .columns = {{"source"},      {"attention"}, {"options"},       {"scope"},
                          {"mode"},        {"batch"},     {"heads"},         {"head_dim"},
                          {"dtype"},       {"device"},    {"threads"},       {"machine"},
                          {"length"},      {"status"},    {"reason"},        {"peak_memory"},
                          {"memory_unit"}, {"time"},      {"time_ci95_low"}, {"time_ci95_high"},
                          {"time_unit"},   {"flops"},     {"path"}},
              .rows = {},
              .notes = {}};
  const auto integer = [](int64_t value) { return fmt::format("{}", value); };
  for (const Profile& p : profiles) {
    const bool ci = p.time && p.time->ci95;
    table.rows.push_back({"measured",
                          p.attention.label,
                          dumped(p.attention.options),
                          p.scope,
                          p.mode,
                          integer(p.batch),
                          integer(p.heads),
                          integer(p.head_dim),
                          p.dtype,
                          p.device,
                          p.threads ? integer(*p.threads) : "",
                          machine_text(p.machine),
                          integer(p.length),
                          p.status,
                          p.reason,
                          p.memory ? fmt::format("{}", p.memory->peak) : "",
                          "MiB",
                          p.time ? fmt::format("{}", p.time->median) : "",
                          ci ? fmt::format("{}", p.time->ci95->low) : "",
                          ci ? fmt::format("{}", p.time->ci95->high) : "",
                          "ms",
                          p.flops ? fmt::format("{}", *p.flops) : "",
                          p.path});
  }
  for (const Published& reference : references) {
    if (!reference.cost) continue;
    const PublishedCost& cost = *reference.cost;
    for (const PublishedCost::Row& row : cost.rows) {
      for (size_t i = 0; i < cost.lengths.size(); ++i) {
        table.rows.push_back({cost_name(reference),
                              row.name,
                              dumped(row.variant.options),
                              fmt::format("{}", fmt::join(cost.scopes, " or ")),
                              cost.mode,
                              integer(cost.batch),
                              integer(cost.heads),
                              integer(cost.head_dim),
                              "",
                              "",
                              "",
                              cost.machine,
                              integer(cost.lengths[i]),
                              "ok",
                              "",
                              fmt::format("{}", row.memory[i]),
                              cost.memory_unit,
                              fmt::format("{}", row.time[i]),
                              "",
                              "",
                              cost.time_unit,
                              "",
                              ""});
      }
    }
  }
  return table;
}

}  // namespace lra
