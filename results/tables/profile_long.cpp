// Profile cells in long form, for other programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "results/analysis/profile_cells.h"
#include "results/records/json_line.h"
#include "results/tables/profile_table.h"

namespace lra {
namespace {

// The columns in their order; a row gives those it has.
constexpr const char* kColumns[] = {"source",
                                    "attention",
                                    "package",
                                    "options",
                                    "scope",
                                    "mode",
                                    "protocol",
                                    "task",
                                    "sets",
                                    "settings_sha256",
                                    "protocol_sha256",
                                    "own_settings_sha256",
                                    "batch",
                                    "batch_policy",
                                    "heads",
                                    "head_dim",
                                    "dtype",
                                    "device",
                                    "kernels",
                                    "threads",
                                    "machine",
                                    "processor_model",
                                    "length",
                                    "status",
                                    "reason",
                                    "peak_memory",
                                    "memory_unit",
                                    "analytic_memory",
                                    "parameters_memory",
                                    "optimizer_memory",
                                    "process_peak",
                                    "time",
                                    "time_ci95_low",
                                    "time_ci95_high",
                                    "time_unit",
                                    "samples",
                                    "passes",
                                    "noisy",
                                    "flops",
                                    "least_bytes",
                                    "roofline_gflops",
                                    "roofline_gbps",
                                    "path",
                                    "superseded"};

using LongRow = std::map<std::string, std::string>;

std::string integer(int64_t value) { return fmt::format("{}", value); }

LongRow measured_row(const Profile& p) {
  LongRow row = {{"source", "measured"},
                 {"attention", p.attention.label},
                 {"package", p.package},
                 {"options", json_line(p.attention.options)},
                 {"scope", to_string(p.scope)},
                 {"mode", to_string(p.mode)},
                 {"protocol", p.protocol},
                 {"task", p.task},
                 {"sets", fmt::format("{}", fmt::join(p.sets, "; "))},
                 {"settings_sha256", p.settings_sha256},
                 {"protocol_sha256", p.protocol_sha256},
                 {"own_settings_sha256", p.own_settings_sha256},
                 {"batch", integer(p.batch)},
                 {"batch_policy", p.batch_policy},
                 {"heads", integer(p.heads)},
                 {"head_dim", integer(p.head_dim)},
                 {"dtype", p.dtype},
                 {"device", p.device},
                 {"kernels", cpu_kernels(p.software, p.device)},
                 {"threads", p.threads ? integer(*p.threads) : ""},
                 {"machine", machine_text(p.machine)},
                 {"processor_model", p.machine.processor_model},
                 {"length", integer(p.length)},
                 {"status", to_string(p.status)},
                 {"reason", p.reason},
                 {"memory_unit", "MiB"},
                 {"time_unit", to_string(TimeUnit::milliseconds)},
                 {"noisy", p.noisy},
                 {"flops", exact_number(p.flops)},
                 {"least_bytes", exact_number(p.least_bytes)},
                 {"path", p.path}};
  if (p.memory) {
    row["peak_memory"] = exact_number(p.memory->peak);
    row["analytic_memory"] = exact_number(p.memory->analytic);
    row["parameters_memory"] = exact_number(p.memory->parameters);
    row["optimizer_memory"] = exact_number(p.memory->optimizer);
    row["process_peak"] = exact_number(p.memory->process_peak);
  }
  if (p.time) {
    row["time"] = exact_number(p.time->median);
    if (const auto ci = shown_interval(p)) {
      row["time_ci95_low"] = exact_number(ci->low);
      row["time_ci95_high"] = exact_number(ci->high);
    }
    row["samples"] = integer(static_cast<int64_t>(p.time->samples.size()));
    row["passes"] = integer(static_cast<int64_t>(p.time->passes.size()));
  }
  if (p.roofline) {
    row["roofline_gflops"] = exact_number(p.roofline->gflops);
    row["roofline_gbps"] = exact_number(p.roofline->gigabytes_per_second);
  }
  return row;
}

LongRow published_row(const Published& reference, const PublishedCost::Row& from, size_t i) {
  const PublishedCost& cost = *reference.cost;
  return {{"source", fmt::format("{}, {}", reference.paper, cost.where)},
          {"attention", from.name},
          {"options", json_line(from.variant.options)},
          {"scope", fmt::format("{}", fmt::join(cost.scopes, " or "))},
          {"mode", to_string(cost.mode)},
          {"batch", integer(cost.batch)},
          {"heads", integer(cost.heads)},
          {"head_dim", integer(cost.head_dim)},
          {"machine", cost.machine},
          {"length", integer(cost.lengths[i])},
          {"status", to_string(Status::ok)},
          {"peak_memory", exact_number(from.memory[i])},
          {"memory_unit", cost.memory_unit},
          {"time", exact_number(from.time[i])},
          {"time_unit", to_string(cost.time_unit)}};
}

}  // namespace

Table memory_time_long(std::span<const Profile> profiles, std::span<const Published> references) {
  Table table{.title = "Memory and time", .columns = {}, .rows = {}, .notes = {}};
  for (const char* column : kColumns) table.columns.push_back({column});
  const auto add = [&table](LongRow row) {
    std::vector<std::string> cells;
    for (const char* column : kColumns) cells.push_back(std::move(row[column]));
    table.rows.push_back(std::move(cells));
  };
  std::set<const Profile*> shown;
  for (const ProfileGroup& group : group_profiles(profiles)) {
    for (const auto& [name, cells] : group.rows) {
      for (const auto& [length, p] : cells) shown.insert(p);
    }
  }
  for (const Profile& p : profiles) {
    LongRow row = measured_row(p);
    row["superseded"] = shown.contains(&p) ? "false" : "true";
    add(std::move(row));
  }
  for (const Published& reference : references) {
    if (!reference.cost) continue;
    for (const PublishedCost::Row& row : reference.cost->rows) {
      for (size_t i = 0; i < reference.cost->lengths.size(); ++i)
        add(published_row(reference, row, i));
    }
  }
  return table;
}

}  // namespace lra
