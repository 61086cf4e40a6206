#include "results/where/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "results/where/groups.h"

namespace lra {
namespace {

constexpr const char* kUnknown = "–";

// A fraction as "50.0 %".
std::string share_text(double share) {
  // A digit for every power of ten would make the table too wide.
  return share < 100 ? fmt::format("{:.1f} %", 100 * share) : short_number(100 * share) + " %";
}

// A bar of up to 30 columns.
std::string bar(double share) {
  std::string text;
  for (int64_t i = std::llround(30 * std::min(share, 1.0)); i > 0; --i) text += "█";
  return text;
}

Table sums_table(const std::string& title, const std::string& header, const WhereSums& sums,
                 const Where& record) {
  std::vector<std::pair<std::string, double>> sorted(sums.begin(), sums.end());
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table{.title = title,
              .columns = {{header, Align::kLeft}, {"ms"}, {"share"}, {"", Align::kLeft}}};
  for (const auto& [name, ms] : sorted) {
    const double share = share_of_step(ms, record);
    table.rows.push_back({name, short_number(ms), share_text(share), bar(share)});
  }
  return table;
}

// Of work a step, in units of 10^9 a second.
std::string rate_text(const std::optional<double>& work, double ms) {
  return work && ms > 0 ? short_number(*work / ms / 1e6) : kUnknown;
}

std::vector<std::string> cells_of_op(const WhereOp& op, const Where& record) {
  return {to_string(op.kind),
          op.op,
          op.part.empty() ? kUnknown : op.part,
          to_string(op.pass),
          short_number(op.calls),
          short_number(op.ms),
          share_text(share_of_step(op.ms, record)),
          rate_text(op.flops, op.ms),
          rate_text(op.bytes, op.ms),
          op.roofline ? share_text(*op.roofline) : kUnknown};
}

}  // namespace

Table where_ops_table(const std::string& title, const Where& record, size_t most) {
  Table table{.title = title,
              .columns = {{"kind", Align::kLeft},
                          {"op", Align::kLeft},
                          {"part", Align::kLeft},
                          {"pass", Align::kLeft},
                          {"calls"},
                          {"ms"},
                          {"share"},
                          {"GFLOP/s"},
                          {"GB/s"},
                          {"of roofline"}}};
  double others = 0;
  for (size_t i = 0; i < record.ops.size(); ++i) {
    if (i < most)
      table.rows.push_back(cells_of_op(record.ops[i], record));
    else
      others += record.ops[i].ms;
  }
  if (record.ops.size() > most) {
    table.notes.push_back(
        fmt::format("{} more take {} ms together", record.ops.size() - most, short_number(others)));
  }
  table.notes.push_back(fmt::format(
      "the roofline: {} GFLOP/s of a large product, {} GB/s of a large copy",
      short_number(record.roofline.gflops), short_number(record.roofline.gigabytes_per_second)));
  return table;
}

std::vector<Table> where_tables(const Where& record, size_t most) {
  const std::string title = fmt::format("{}, {} N={}, batch {}, {}", record.attention.label,
                                        record.task, record.length, record.batch, record.mode);
  Table kinds = sums_table(title, "kind", sums_by_kind(record), record);
  kinds.notes.push_back(fmt::format(
      "a step takes {} ms, recorded {} ms, {} of them by the recording itself; means of {} steps",
      short_number(record.step_ms), short_number(record.recorded_ms),
      short_number(record.recording_ms), record.steps));
  return {std::move(kinds), sums_table("Parts", "part", sums_by_part(record), record),
          where_ops_table("Ops", record, most)};
}

}  // namespace lra
