#include "results/where/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/base/text.h"
#include "results/records/json_line.h"
#include "results/records/setup_groups.h"

namespace lra {
namespace {

std::string heads_text(const Where& record) {
  if (!record.heads || !record.head_dim) return "";
  return fmt::format("{} of {}, ", count_text(*record.heads, "head"), *record.head_dim);
}

std::string where_setting(const Where& record, const SetupGroup& same) {
  std::string text =
      fmt::format("{} N={}, batch {}, {}{}, protocol {}{}, {}, {}{}, {}, {}", record.task,
                  record.length, record.batch, heads_text(record), record.mode, record.protocol,
                  same.values.empty() ? "" : " (" + same.values + ")", record.dtype, record.device,
                  same.cpu.empty() ? "" : ", " + same.cpu, count_text(record.threads, "thread"),
                  machine_text(record.machine));
  return record.sets.empty() ? text : fmt::format("{}; {}", text, fmt::join(record.sets, ", "));
}

template <class NameOf>
WhereSums sums_of_ops(const Where& record, const NameOf& name_of) {
  WhereSums sums;
  for (const WhereOp& op : record.ops) sums[name_of(op)] += op.ms;
  sums[kOutside] += record.outside_ms;
  return sums;
}

SetupMarks where_marks(const Where& record) {
  return {.kernels = kernel_set(record.software, record.device),
          .capability = cpu_capability(record.software, record.device),
          .processor = cpu_model(record.machine, record.device),
          .values = record.protocol_sha256,
          .own = record.own_settings_sha256,
          .settings = record.settings_sha256,
          .cell = json_line({record.attention.label, record.attention.options}),
          .file = record.path};
}

WhereGroup where_group(const std::vector<const Where*>& records, const SetupGroup& same) {
  WhereGroup group{.setting = where_setting(*records.front(), same), .notes = same.notes};
  std::map<std::string, int> times;  // by label
  for (const Where* record : records) {
    const std::string& label = record->attention.label;
    const int time = ++times[label];
    group.rows.emplace_back(time == 1 ? label : fmt::format("{} ({})", label, time), record);
  }
  std::ranges::stable_sort(group.rows, {}, [](const auto& row) { return row.second->step_ms; });
  return group;
}

}  // namespace

std::vector<WhereGroup> where_groups(std::span<const Where> records) {
  std::map<std::string, std::vector<const Where*>> settings;
  for (const Where& record : records) settings[where_setting(record, {})].push_back(&record);
  std::vector<WhereGroup> all;
  for (const auto& [setting, steps] : settings) {
    std::vector<SetupMarks> marks;
    for (const Where* step : steps) marks.push_back(where_marks(*step));
    for (const SetupGroup& same : setup_groups(marks)) {
      std::vector<const Where*> members;
      for (const size_t member : same.members) members.push_back(steps[member]);
      all.push_back(where_group(members, same));
    }
  }
  return all;
}

WhereSums sums_by_kind(const Where& record) {
  return sums_of_ops(record, [](const WhereOp& op) { return to_string(op.kind); });
}

WhereSums sums_by_part(const Where& record) {
  return sums_of_ops(record,
                     [](const WhereOp& op) { return op.part.empty() ? "no part" : op.part; });
}

double share_of_step(double ms, const Where& record) {
  const double all = record.ops_ms + record.outside_ms;
  return all > 0 ? ms / all : 0;
}

}  // namespace lra
