// The table of memory and time beside the published numbers.
#include "results/tables/profile_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "attention_variants/base/text.h"
#include "results/analysis/profile_cells.h"
#include "results/analysis/profile_method.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

std::string cost_name(const Published& reference) {
  return fmt::format("{}, {}", reference.paper, reference.cost->where);
}

std::string cost_shape(const PublishedCost& cost) {
  return fmt::format("{} heads of {}, batch {}, {}, float32", cost.heads, cost.head_dim, cost.batch,
                     cost.mode);
}

constexpr const char *kMemoryGrowth = "growth of memory", *kTimeGrowth = "growth of time";
constexpr std::string_view kPublishedMark = " (published, ";

void add_growth_columns(Table& table) {
  table.columns.push_back({kMemoryGrowth});
  table.columns.push_back({kTimeGrowth});
}

// Digits behind the point of the number that has the most: papers print a column's alike.
int decimals_of(const PublishedCost& cost) {
  int most = 0;
  for (const PublishedCost::Row& row : cost.rows) {
    for (const double time : row.time) {
      const std::string text = fmt::format("{}", time);
      const size_t point = text.find('.');
      if (point != std::string::npos)
        most = std::max(most, static_cast<int>(text.size() - point - 1));
    }
  }
  return most;
}

// Rows of a paper at the given lengths.
void add_published_rows(const PublishedCost& cost, const std::vector<int64_t>& lengths,
                        Table& table) {
  const int decimals = decimals_of(cost);
  for (const PublishedCost::Row& row : cost.rows) {
    std::vector<std::string> cells{fmt::format("{}{}{})", row.name, kPublishedMark, cost.machine)};
    for (const int64_t length : lengths) {
      const auto it = std::ranges::find(cost.lengths, length);
      const auto at = static_cast<size_t>(it - cost.lengths.begin());
      cells.push_back(it == cost.lengths.end()
                          ? "–"
                          : fmt::format("{} / {:.{}f}", row.memory[at], row.time[at], decimals));
    }
    const std::vector<double> all(cost.lengths.begin(), cost.lengths.end());
    cells.push_back(growth_text(all, row.memory));
    cells.push_back(growth_text(all, row.time));
    table.rows.push_back(cells);
  }
}

Table published_table(const Published& reference) {
  const PublishedCost& cost = *reference.cost;
  Table table{
      .title = fmt::format("Published memory and time, not comparable with the profiles here: {}",
                           cost_name(reference)),
      .columns = {{"attention", Align::kLeft}},
      .notes = {fmt::format("a cell is {} / {} as printed: {}, on {}; {}", cost.memory_unit,
                            cost.time_unit, cost.what, cost.machine, cost_shape(cost))}};
  for (const int64_t length : cost.lengths) table.columns.push_back({fmt::format("{}", length)});
  add_growth_columns(table);
  add_published_rows(cost, cost.lengths, table);
  if (!cost.note.empty()) table.notes.push_back(cost.note);
  return table;
}

// One line a reason, with how many cells share it.
std::vector<std::string> reasons(const ProfileGroup& group) {
  std::map<std::string, std::set<std::string>> texts;  // by status, or "noisy"
  for (const auto& [name, cells] : group.rows) {
    for (const auto& [length, p] : cells) {
      if (p->status != Status::ok && !p->reason.empty())
        texts[to_string(p->status)].insert(fmt::format("{} at {}: {}", name, length, p->reason));
      if (p->status == Status::ok && !p->noisy.empty())
        texts["~ noisy"].insert(fmt::format("{} at {}: {}", name, length, p->noisy));
    }
  }
  return first_of_each(texts);
}

std::vector<const Profile*> cells_of(const ProfileGroup& group) {
  std::vector<const Profile*> all;
  for (const auto& [name, cells] : group.rows) {
    for (const auto& [length, p] : cells) all.push_back(p);
  }
  return all;
}

// How often intervals of so few processes hold the true median: MedianOverPasses' test of it.
std::string coverage_text(int64_t processes) {
  switch (processes) {
    case 1:
      return "; intervals of one process are of it alone, others may lie outside";
    case 2:
      return "; intervals of two processes hold the true median in 53 to 62 of 100 cases";
    case 3:
      return "; intervals of three processes hold the true median in 73 to 83 of 100 cases";
    default:
      return "";
  }
}

// How the times were taken, where that is known of all cells.
std::string method_note(const ProfileGroup& group) {
  std::set<std::string> texts;
  std::set<int64_t> processes;
  int64_t cut = 0;  // cells of fewer
  for (const auto& [name, cells] : group.rows) {
    for (const auto& [length, p] : cells) {
      if (!p->package.empty() || p->status != Status::ok) continue;
      const json& m = p->method;
      if (!m.contains("passes") || !m.contains("seconds")) return "";
      texts.insert(fmt::format("{} interleaved process{} a cell, up to {} s of samples, {}",
                               json_line(m["passes"]), m["passes"] == 1 ? "" : "es",
                               json_line(m["seconds"]),
                               m.contains("pinned") && !m["pinned"].is_null()
                                   ? "threads pinned to processors " + json_line(m["pinned"])
                                   : "threads not pinned"));
      if (!m["passes"].is_number_integer()) continue;
      const auto wanted = m["passes"].get<int64_t>();
      const int64_t taken = p->time->passes.empty() ? wanted : std::ssize(p->time->passes);
      processes.insert(std::min(wanted, taken));
      cut += taken < wanted ? 1 : 0;
    }
  }
  if (texts.empty()) return "";
  std::string text = texts.size() == 1
                         ? *texts.begin()
                         : fmt::format("not all measured alike: {}", fmt::join(texts, "; or "));
  if (cut > 0) text += fmt::format("; {} of fewer", count_text(cut, "cell"));
  for (const int64_t count : processes) text += coverage_text(count);
  return text;
}

std::vector<std::string> row_of(const ProfileGroup& group, const std::string& name) {
  std::vector<std::string> row{name};
  std::vector<double> lengths, memory, time;
  bool noisy = false;
  for (const int64_t length : group.lengths) {
    const Profile* p = group.at(name, length);
    if (!measured(p)) {
      row.push_back(p == nullptr ? "–" : to_string(p->status));
      continue;
    }
    row.push_back(fmt::format("{} / {}{}{}", p->memory->peak ? short_number(*p->memory->peak) : "–",
                              p->noisy.empty() ? "" : "~", short_number(p->time->median),
                              batch_mark(*p)));
    noisy |= !p->noisy.empty();
    lengths.push_back(static_cast<double>(length));
    memory.push_back(memory_cost(*p).value_or(0));  // growth leaves out what is not positive
    time.push_back(time_cost(*p).value_or(0));
  }
  row.push_back(growth_text(lengths, memory));
  const std::string growth = growth_text(lengths, time);
  row.push_back(noisy && growth != "–" ? "~" + growth : growth);
  return row;
}

}  // namespace

void drop_published_rows(Table& table) {
  const auto dropped = std::erase_if(
      table.rows, [](const auto& row) { return row[0].find(kPublishedMark) != std::string::npos; });
  if (dropped == 0) return;
  std::erase_if(table.notes, [](const std::string& note) {
    return note.starts_with("published rows: ") || note.starts_with("difference of machine: ");
  });
  table.notes.emplace_back("the published rows stand in report.md");
}

void drop_growth(Table& table) {
  const size_t before = table.columns.size();
  for (size_t c = before; c-- > 0;) {
    const std::string& header = table.columns[c].header;
    if (header != kMemoryGrowth && header != kTimeGrowth) continue;
    const auto at = static_cast<std::ptrdiff_t>(c);
    table.columns.erase(table.columns.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
  if (table.columns.size() < before) table.notes.emplace_back("the growths stand in report.md");
}

bool comparable(const PublishedCost& cost, const Profile& front) {
  return cost.time_unit == TimeUnit::milliseconds &&
         std::ranges::find(cost.scopes, front.scope) != cost.scopes.end() &&
         cost.mode == front.mode && front.dtype == "float32" && front.batch_policy.empty() &&
         cost.batch == front.batch && cost.heads == front.heads && cost.head_dim == front.head_dim;
}

std::vector<Table> memory_time_tables(std::span<const Profile> profiles,
                                      std::span<const Published> references) {
  std::vector<Table> tables;
  std::set<const Published*> abbreviated;
  const auto groups = group_profiles(profiles);
  for (const ProfileGroup& group : groups) {
    Table table{
        .title = "Memory and time per length: " + group.setting,
        .columns = {{"attention", Align::kLeft}},
        .notes = {fmt::format(
            "a cell is MiB / ms: peak of live tensors above inputs and weights, and median time; "
            "growth{}: exponents of a log-log fit over the row's lengths with 95 % intervals "
            "(published: over all printed)",
            group.per_sample())}};
    for (const int64_t length : group.lengths) table.columns.push_back({fmt::format("{}", length)});
    add_growth_columns(table);
    for (const auto& [name, cells] : group.rows) table.rows.push_back(row_of(group, name));
    if (const std::string note = method_note(group); !note.empty()) table.notes.push_back(note);
    if (const std::string mixed = mixed_methods(cells_of(group)); !mixed.empty())
      table.notes.push_back("not all measured alike: " + mixed);
    for (const Published& reference : references) {
      if (!reference.cost || reference.cost->time_unit != TimeUnit::milliseconds) continue;
      const PublishedCost& cost = *reference.cost;
      if (comparable(cost, *group.front)) {
        abbreviated.insert(&reference);
        add_published_rows(cost, {group.lengths.begin(), group.lengths.end()}, table);
        table.notes.push_back(fmt::format("published rows: {} ({}), in {} / {} as printed",
                                          cost_name(reference), cost.what, cost.memory_unit,
                                          cost.time_unit));
        table.notes.push_back(
            fmt::format("difference of machine: {} here, {} in the published rows",
                        machine_text(group.front->machine), cost.machine));
      } else {
        table.notes.push_back(fmt::format("{} is not comparable and stands apart: it is for {}",
                                          cost_name(reference), cost_shape(cost)));
      }
    }
    table.notes.insert(table.notes.end(), group.notes.begin(), group.notes.end());
    if (group.repeated)
      table.notes.push_back("a cell that was measured more than once shows its last line");
    for (const std::string& note : reasons(group)) table.notes.push_back(note);
    tables.push_back(table);
  }
  for (const Published& reference : references) {
    if (groups.empty() || !reference.cost || reference.cost->time_unit != TimeUnit::milliseconds ||
        abbreviated.contains(&reference))
      continue;
    tables.push_back(published_table(reference));
  }
  return tables;
}

}  // namespace lra
