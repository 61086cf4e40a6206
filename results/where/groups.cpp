#include "results/where/groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lra {
namespace {

std::string where_setting(const Where& record) {
  std::string text = fmt::format("{} N={}, batch {}, {}, protocol {}, {}, {}, {} thread{}, {}",
                                 record.task, record.length, record.batch, record.mode,
                                 record.protocol, record.dtype, record.device, record.threads,
                                 record.threads == 1 ? "" : "s", machine_text(record.machine));
  const auto sets = record.sets.get<std::vector<std::string>>();
  return sets.empty() ? text : fmt::format("{}; {}", text, fmt::join(sets, ", "));
}

template <class NameOf>
WhereSums sums_of_ops(const Where& record, const NameOf& name_of) {
  WhereSums sums;
  for (const WhereOp& op : record.ops) sums[name_of(op)] += op.ms;
  sums[kOutside] += record.outside_ms;
  return sums;
}

}  // namespace

std::vector<WhereGroup> where_groups(std::span<const Where> records) {
  std::map<std::string, WhereGroup> groups;
  std::map<std::pair<std::string, std::string>, int> times;  // (setting, label) -> so far
  for (const Where& record : records) {
    const std::string setting = where_setting(record), &label = record.attention.label;
    const int time = ++times[{setting, label}];
    WhereGroup& group = groups[setting];
    group.setting = setting;
    group.rows.emplace_back(time == 1 ? label : fmt::format("{} ({})", label, time), &record);
  }
  std::vector<WhereGroup> all;
  for (auto& [setting, group] : groups) {
    std::ranges::stable_sort(group.rows, {}, [](const auto& row) { return row.second->step_ms; });
    all.push_back(std::move(group));
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
