// Steps of several attentions beside each other, as tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "results/print/long_table.h"
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

// A row of the long form: an op, or what is in none.
struct LongOp {
  const Where& step;
  WhereOp op;
  std::string kind, pass;
};

constexpr LongColumn<LongOp> kOpColumns[] = {
    {"attention", [](const auto& r) { return r.step.attention.label; }},
    {"options", [](const auto& r) { return json_line(r.step.attention.options); }},
    {"protocol", [](const auto& r) { return r.step.protocol; }},
    {"task", [](const auto& r) { return r.step.task; }},
    {"sets", [](const auto& r) { return fmt::format("{}", fmt::join(r.step.sets, "; ")); }},
    {"protocol_sha256", [](const auto& r) { return r.step.protocol_sha256; }},
    {"own_settings_sha256", [](const auto& r) { return r.step.own_settings_sha256; }},
    {"settings_sha256", [](const auto& r) { return r.step.settings_sha256; }},
    {"mode", [](const auto& r) { return to_string(r.step.mode); }},
    {"length", [](const auto& r) { return exact_integer(r.step.length); }},
    {"batch", [](const auto& r) { return exact_integer(r.step.batch); }},
    {"heads", [](const auto& r) { return exact_integer(r.step.heads); }},
    {"head_dim", [](const auto& r) { return exact_integer(r.step.head_dim); }},
    {"dtype", [](const auto& r) { return r.step.dtype; }},
    {"device", [](const auto& r) { return r.step.device; }},
    {"kernels", [](const auto& r) { return cpu_kernels(r.step.software, r.step.device); }},
    {"threads", [](const auto& r) { return exact_integer(r.step.threads); }},
    {"machine", [](const auto& r) { return machine_text(r.step.machine); }},
    {"step_ms", [](const auto& r) { return exact_number(r.step.step_ms); }},
    {"kind", [](const auto& r) { return r.kind; }},
    {"op", [](const auto& r) { return r.op.op; }},
    {"part", [](const auto& r) { return r.op.part; }},
    {"pass", [](const auto& r) { return r.pass; }},
    {"calls", [](const auto& r) { return exact_number(r.op.calls); }},
    {"ms", [](const auto& r) { return exact_number(r.op.ms); }},
    {"share", [](const auto& r) { return exact_number(share_of_step(r.op.ms, r.step)); }},
    {"flops", [](const auto& r) { return exact_number(r.op.flops); }},
    {"bytes", [](const auto& r) { return exact_number(r.op.bytes); }},
    {"gflops", [](const auto& r) { return where_rate(r.op.flops, r.op.ms); }},
    {"gbps", [](const auto& r) { return where_rate(r.op.bytes, r.op.ms); }},
    {"roofline_share", [](const auto& r) { return exact_number(r.op.roofline); }},
    {"roofline_gflops", [](const auto& r) { return exact_number(r.step.roofline.gflops); }},
    {"roofline_gbps",
     [](const auto& r) { return exact_number(r.step.roofline.gigabytes_per_second); }},
    {"path", [](const auto& r) { return r.step.path; }},
};

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
  std::vector<LongOp> rows;
  for (const Where& record : records) {
    for (const WhereOp& op : record.ops)
      rows.push_back({record, op, to_string(op.kind), to_string(op.pass)});
    rows.push_back({.step = record, .op = {.ms = record.outside_ms}, .kind = kOutside});
  }
  return long_table("Where a step's time goes", kOpColumns, rows);
}

}  // namespace lra
