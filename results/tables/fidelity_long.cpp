// The numbers of fidelity experiments in long form.
#include <fmt/format.h>

#include "results/print/long_table.h"
#include "results/records/json_line.h"
#include "results/tables/fidelity_groups.h"
#include "results/tables/fidelity_table.h"

namespace lra {
namespace {

std::string nine_digits(const std::optional<double>& value) {
  return value ? fmt::format("{:.9g}", *value) : "";
}

struct LongMeasure {
  const Fidelity& of;
  std::string measure;  // "": the cell has none
  std::optional<TrialEstimate> estimate;
};

constexpr LongColumn<LongMeasure> kFidelityColumns[] = {
    {"experiment", [](const auto& r) { return exact_integer(r.of.experiment); }},
    {"attention", [](const auto& r) { return r.of.attention.label; }},
    {"options", [](const auto& r) { return json_line(r.of.attention.options); }},
    {"budget", [](const auto& r) { return r.of.budget; }},
    {"budget_value",
     [](const auto& r) { return r.of.budget.empty() ? "" : exact_integer(r.of.budget_value); }},
    {"length", [](const auto& r) { return exact_integer(r.of.length); }},
    {"heads", [](const auto& r) { return exact_integer(r.of.heads); }},
    {"head_dim", [](const auto& r) { return exact_integer(r.of.head_dim); }},
    {"trials", [](const auto& r) { return exact_integer(r.of.trials); }},
    {"seed", [](const auto& r) { return fmt::format("{}", r.of.seed); }},
    {"dtype", [](const auto& r) { return r.of.dtype; }},
    {"device", [](const auto& r) { return r.of.device; }},
    {"threads", [](const auto& r) { return exact_integer(r.of.threads); }},
    {"data", [](const auto& r) { return fidelity_data_text(r.of.data); }},
    {"layer", [](const auto& r) { return exact_integer(r.of.layer); }},
    {"synthetic",
     [](const auto& r) {
       return r.of.data.from_run() ? fmt::format("{}", r.of.data.synthetic) : "";
     }},
    {"fingerprint", [](const auto& r) { return r.of.data.fingerprint; }},
    {"status", [](const auto& r) { return to_string(r.of.status); }},
    {"reason", [](const auto& r) { return r.of.reason; }},
    {"measure", [](const auto& r) { return r.measure; }},
    {"mean", [](const auto& r) { return r.estimate ? nine_digits(r.estimate->mean) : ""; }},
    {"sd", [](const auto& r) { return r.estimate ? nine_digits(r.estimate->sd) : ""; }},
    {"ci95_low",
     [](const auto& r) {
       return r.estimate && r.estimate->ci95 ? nine_digits(r.estimate->ci95->low) : "";
     }},
    {"ci95_high",
     [](const auto& r) {
       return r.estimate && r.estimate->ci95 ? nine_digits(r.estimate->ci95->high) : "";
     }},
    {"median", [](const auto& r) { return r.estimate ? nine_digits(r.estimate->median) : ""; }},
    {"worst", [](const auto& r) { return r.estimate ? nine_digits(r.estimate->worst) : ""; }},
    {"time_ms", [](const auto& r) { return r.of.time ? nine_digits(r.of.time->median) : ""; }},
    {"peak_mib", [](const auto& r) { return r.of.memory ? nine_digits(r.of.memory->peak) : ""; }},
    {"flops", [](const auto& r) { return nine_digits(r.of.flops); }},
    {"machine", [](const auto& r) { return machine_text(r.of.machine); }},
    {"path", [](const auto& r) { return r.of.path; }},
};

}  // namespace

Table fidelity_long(std::span<const Fidelity> cells) {
  std::vector<LongMeasure> rows;
  for (const Fidelity& f : cells) {
    if (f.measures.empty()) rows.push_back({.of = f});
    for (const auto& [name, estimate] : f.measures) rows.push_back({f, name, estimate});
  }
  return long_table("Fidelity", kFidelityColumns, rows);
}

}  // namespace lra
