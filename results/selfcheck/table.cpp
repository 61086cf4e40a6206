#include "results/selfcheck/table.h"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace lra {
namespace {

constexpr const char* kNone = "–";

std::string subject_text(const Selfcheck& record) {
  return record.attention ? record.attention->label : "(machine)";
}

// The checks of one attention, or of the machine.
struct SelfcheckRow {
  int64_t ok = 0, failed = 0, skipped = 0;
  const Selfcheck* worst = nullptr;
  std::optional<double> core_ms, core_training_ms, step_ms;
};

void count(const Selfcheck& record, SelfcheckRow& row) {
  row.ok += record.finding == Finding::ok ? 1 : 0;
  row.skipped += record.finding == Finding::skipped ? 1 : 0;
  row.failed += record.is_failure() ? 1 : 0;
  if (record.error && (row.worst == nullptr || record.error->share() > row.worst->error->share()))
    row.worst = &record;
  const SelfcheckMeasures& m = record.measures;
  if (m.core_ms) row.core_ms = m.core_ms;
  if (m.core_training_ms) row.core_training_ms = m.core_training_ms;
  if (m.step_ms) row.step_ms = m.step_ms;
}

std::string ms_text(const std::optional<double>& ms) { return ms ? short_number(*ms) : kNone; }

std::vector<std::string> cells_of(const std::string& name, const SelfcheckRow& row) {
  std::string value = kNone, limit = kNone, where = kNone;
  if (row.worst != nullptr) {
    const BoundedError& error = *row.worst->error;
    value = error.value ? short_number(*error.value) : "not finite";
    limit = short_number(error.limit);
    where = row.worst->check;
  }
  return {name,
          std::to_string(row.ok),
          std::to_string(row.failed),
          std::to_string(row.skipped),
          value,
          limit,
          where,
          ms_text(row.core_ms),
          ms_text(row.core_training_ms),
          ms_text(row.step_ms)};
}

}  // namespace

Table selfcheck_table(std::span<const Selfcheck> records) {
  Table table{.title = "Self-check",
              .columns = {{"attention", Align::kLeft},
                          {"ok"},
                          {"failed"},
                          {"skipped"},
                          {"worst error"},
                          {"at most"},
                          {"in", Align::kLeft},
                          {"core ms"},
                          {"core training ms"},
                          {"step ms"}}};
  std::vector<std::string> order;
  std::map<std::string, SelfcheckRow> rows;
  std::map<std::string, int64_t> skipped;  // reason -> checks
  for (const Selfcheck& record : records) {
    const std::string name = subject_text(record);
    if (!rows.contains(name)) order.push_back(name);
    count(record, rows[name]);
    if (record.finding == Finding::skipped) ++skipped[record.check + ": " + record.reason];
    if (record.is_failure())
      table.notes.push_back(
          fmt::format("{}, {}: {}: {}", name, record.check, record.finding, record.reason));
  }
  for (const std::string& name : order) table.rows.push_back(cells_of(name, rows[name]));
  for (const auto& [reason, times] : skipped)
    table.notes.push_back(fmt::format("skipped {} times: {}", times, reason));
  if (!records.empty())
    table.notes.push_back(
        fmt::format("on {}, {}", records.front().device, machine_text(records.front().machine)));
  return table;
}

}  // namespace lra
