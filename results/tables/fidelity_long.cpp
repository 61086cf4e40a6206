// The numbers of fidelity experiments in long form.
#include <fmt/format.h>

#include "results/records/json_line.h"
#include "results/tables/fidelity_groups.h"
#include "results/tables/fidelity_table.h"

namespace lra {
namespace {

constexpr const char* kFidelityColumns[] = {
    "experiment", "attention", "options",     "budget", "budget_value", "length",  "heads",
    "head_dim",   "trials",    "seed",        "dtype",  "device",       "threads", "data",
    "layer",      "synthetic", "fingerprint", "status", "reason",       "measure", "mean",
    "sd",         "ci95_low",  "ci95_high",   "median", "worst",        "time_ms", "peak_mib",
    "flops",      "machine",   "path"};

// One row of the long form; `e` is null where the cell has no such measure.
std::vector<std::string> long_row(const Fidelity& f, const std::string& measure,
                                  const TrialEstimate* e) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.9g}", *value) : std::string();
  };
  const auto integer = [](const std::optional<int64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  const auto of = [&](double value) { return e == nullptr ? "" : fmt::format("{:.9g}", value); };
  const TrialEstimate none;
  const TrialEstimate& estimate = e == nullptr ? none : *e;
  const bool run = f.data.from_run();
  return {integer(f.experiment),
          f.attention.label,
          json_line(f.attention.options),
          f.budget,
          f.budget.empty() ? "" : integer(f.budget_value),
          integer(f.length),
          integer(f.heads),
          integer(f.head_dim),
          integer(f.trials),
          fmt::format("{}", f.seed),
          f.dtype,
          f.device,
          integer(f.threads),
          fidelity_data_text(f.data),
          integer(f.layer),
          run ? (f.data.synthetic ? "true" : "false") : "",
          f.data.fingerprint,
          to_string(f.status),
          f.reason,
          measure,
          of(estimate.mean),
          number(estimate.sd),
          estimate.ci95 ? of(estimate.ci95->low) : "",
          estimate.ci95 ? of(estimate.ci95->high) : "",
          of(estimate.median),
          of(estimate.worst),
          f.time ? number(f.time->median) : "",
          f.memory ? number(f.memory->peak) : "",
          number(f.flops),
          machine_text(f.machine),
          f.path};
}

}  // namespace

Table fidelity_long(std::span<const Fidelity> cells) {
  Table table{.title = "Fidelity", .columns = {}, .rows = {}, .notes = {}};
  for (const char* column : kFidelityColumns) table.columns.push_back({column});
  for (const Fidelity& f : cells) {
    if (f.measures.empty()) table.rows.push_back(long_row(f, "", nullptr));
    for (const auto& [name, estimate] : f.measures)
      table.rows.push_back(long_row(f, name, &estimate));
  }
  return table;
}

}  // namespace lra
