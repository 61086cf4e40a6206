// Steps of several attentions beside each other, as tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "results/records/json_line.h"
#include "results/records/setup_groups.h"
#include "results/where/groups.h"
#include "results/where/table.h"

namespace lra {
namespace {

// As a step goes through the model; layers by their number.
std::tuple<size_t, size_t, std::string> part_place(const std::string& part) {
  constexpr const char* kOrder[] = {"embedding", "layer", "head",    "loss",
                                    "optimizer", "other", "no part", kOutside};
  const std::string known = part.starts_with("layer ") ? "layer" : part;
  const auto* at = std::ranges::find(kOrder, known);
  if (at == std::end(kOrder)) at = std::ranges::find(kOrder, std::string("other"));
  return {static_cast<size_t>(at - std::begin(kOrder)), part.size(), part};
}

// The names of all rows' sums, those of no time left out.
std::set<std::string> names_of_sums(const WhereGroup& group,
                                    WhereSums (*sums_of)(const Where& record)) {
  std::set<std::string> names;
  for (const auto& [row, record] : group.rows) {
    for (const auto& [name, ms] : sums_of(*record)) {
      if (ms > 0) names.insert(name);
    }
  }
  return names;
}

// "4.5 (50.0 %)"; where a cell is broken into lines, the sign stays with its number.
std::string sum_cell(double ms, const Where& record) {
  return fmt::format("{} ({:.1f}\u00a0%)", short_number(ms), 100 * share_of_step(ms, record));
}

Table group_table(const std::string& title, const WhereGroup& group,
                  const std::vector<std::string>& names,
                  WhereSums (*sums_of)(const Where& record)) {
  Table table{.title = fmt::format("{}: {}", title, group.setting),
              .columns = {{"attention", Align::kLeft}, {"step ms"}},
              .rows = {},
              .notes = {"step: median without recording; the others: ms of the mean recorded step "
                        "(share of it), an op's own time without the ops inside it"}};
  table.notes.insert(table.notes.end(), group.notes.begin(), group.notes.end());
  for (const std::string& name : names) table.columns.push_back({name});
  for (const auto& [row, record] : group.rows) {
    const WhereSums sums = sums_of(*record);
    std::vector<std::string> cells{row, short_number(record->step_ms)};
    for (const std::string& name : names) {
      const auto it = sums.find(name);
      cells.push_back(it == sums.end() ? "–" : sum_cell(it->second, *record));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<Table> group_tables(const WhereGroup& group) {
  const std::set<std::string> used = names_of_sums(group, sums_by_kind);
  std::vector<std::string> kinds;
  for (const std::string& kind : all_names<WorkKind>()) {
    if (used.contains(kind)) kinds.push_back(kind);
  }
  if (used.contains(kOutside)) kinds.emplace_back(kOutside);
  const std::set<std::string> found = names_of_sums(group, sums_by_part);
  std::vector<std::string> parts(found.begin(), found.end());
  std::ranges::sort(parts, {}, part_place);
  return {group_table("Time of a step by kind of work", group, kinds, sums_by_kind),
          group_table("Time of a step by part", group, parts, sums_by_part)};
}

// Work a second in units of 10^9; "" where it is not known.
std::string where_rate(const std::optional<double>& work, double ms) {
  return work && ms > 0 ? exact_number(*work / ms / 1e6) : "";
}

void append_long(const Where& record, Table& table) {
  const auto add = [&](const std::string& kind, const WhereOp& op, const std::string& pass) {
    table.rows.push_back({record.attention.label,
                          json_line(record.attention.options),
                          record.protocol,
                          record.task,
                          fmt::format("{}", fmt::join(record.sets, "; ")),
                          record.protocol_sha256,
                          record.own_settings_sha256,
                          record.settings_sha256,
                          to_string(record.mode),
                          fmt::format("{}", record.length),
                          fmt::format("{}", record.batch),
                          record.heads ? fmt::format("{}", *record.heads) : "",
                          record.head_dim ? fmt::format("{}", *record.head_dim) : "",
                          record.dtype,
                          record.device,
                          cpu_kernels(record.software, record.device),
                          fmt::format("{}", record.threads),
                          machine_text(record.machine),
                          exact_number(record.step_ms),
                          kind,
                          op.op,
                          op.part,
                          pass,
                          exact_number(op.calls),
                          exact_number(op.ms),
                          exact_number(share_of_step(op.ms, record)),
                          exact_number(op.flops),
                          exact_number(op.bytes),
                          where_rate(op.flops, op.ms),
                          where_rate(op.bytes, op.ms),
                          exact_number(op.roofline),
                          exact_number(record.roofline.gflops),
                          exact_number(record.roofline.gigabytes_per_second),
                          record.path});
  };
  for (const WhereOp& op : record.ops) add(to_string(op.kind), op, to_string(op.pass));
  add(kOutside, {.ms = record.outside_ms}, "");
}

}  // namespace

std::vector<Table> where_group_tables(std::span<const Where> records) {
  std::vector<Table> tables;
  for (const WhereGroup& group : where_groups(records))
    std::ranges::move(group_tables(group), std::back_inserter(tables));
  return tables;
}

std::vector<Table> where_detail_tables(std::span<const Where> records, size_t most) {
  std::vector<Table> tables;
  for (const WhereGroup& group : where_groups(records)) {
    std::ranges::move(group_tables(group), std::back_inserter(tables));
    for (const auto& [row, record] : group.rows) {
      const std::string title = fmt::format("Ops of {}: {} N={}, batch {}, {}", row, record->task,
                                            record->length, record->batch, record->mode);
      tables.push_back(where_ops_table(title, *record, most));
    }
  }
  return tables;
}

Table where_long(std::span<const Where> records) {
  Table table{.title = "Where a step's time goes", .columns = {}, .rows = {}, .notes = {}};
  for (const char* column : {"attention",
                             "options",
                             "protocol",
                             "task",
                             "sets",
                             "protocol_sha256",
                             "own_settings_sha256",
                             "settings_sha256",
                             "mode",
                             "length",
                             "batch",
                             "heads",
                             "head_dim",
                             "dtype",
                             "device",
                             "kernels",
                             "threads",
                             "machine",
                             "step_ms",
                             "kind",
                             "op",
                             "part",
                             "pass",
                             "calls",
                             "ms",
                             "share",
                             "flops",
                             "bytes",
                             "gflops",
                             "gbps",
                             "roofline_share",
                             "roofline_gflops",
                             "roofline_gbps",
                             "path"})
    table.columns.push_back({column});
  for (const Where& record : records) append_long(record, table);
  return table;
}

}  // namespace lra
