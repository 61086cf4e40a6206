// Profile cells in long form, for other programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "results/analysis/profile_cells.h"
#include "results/print/long_table.h"
#include "results/records/json_line.h"
#include "results/tables/profile_table.h"

namespace lra {
namespace {

struct LongProfile {
  const Profile& p;
  std::optional<stats::Interval> ci95;
  bool superseded;
};

constexpr LongColumn<LongProfile> kProfileColumns[] = {
    {"source", [](const auto&) { return std::string("measured"); }},
    {"attention", [](const auto& r) { return r.p.attention.label; }},
    {"package", [](const auto& r) { return r.p.package; }},
    {"options", [](const auto& r) { return json_line(r.p.attention.options); }},
    {"scope", [](const auto& r) { return to_string(r.p.scope); }},
    {"mode", [](const auto& r) { return to_string(r.p.mode); }},
    {"protocol", [](const auto& r) { return r.p.protocol; }},
    {"task", [](const auto& r) { return r.p.task; }},
    {"sets", [](const auto& r) { return fmt::format("{}", fmt::join(r.p.sets, "; ")); }},
    {"settings_sha256", [](const auto& r) { return r.p.settings_sha256; }},
    {"protocol_sha256", [](const auto& r) { return r.p.protocol_sha256; }},
    {"own_settings_sha256", [](const auto& r) { return r.p.own_settings_sha256; }},
    {"batch", [](const auto& r) { return exact_integer(r.p.batch); }},
    {"batch_policy", [](const auto& r) { return r.p.batch_policy; }},
    {"heads", [](const auto& r) { return exact_integer(r.p.heads); }},
    {"head_dim", [](const auto& r) { return exact_integer(r.p.head_dim); }},
    {"dtype", [](const auto& r) { return r.p.dtype; }},
    {"device", [](const auto& r) { return r.p.device; }},
    {"kernels", [](const auto& r) { return cpu_kernels(r.p.software, r.p.device); }},
    {"threads", [](const auto& r) { return exact_integer(r.p.threads); }},
    {"machine", [](const auto& r) { return machine_text(r.p.machine); }},
    {"processor_model", [](const auto& r) { return r.p.machine.processor_model; }},
    {"length", [](const auto& r) { return exact_integer(r.p.length); }},
    {"status", [](const auto& r) { return to_string(r.p.status); }},
    {"reason", [](const auto& r) { return r.p.reason; }},
    {"peak_memory", [](const auto& r) { return r.p.memory ? exact_number(r.p.memory->peak) : ""; }},
    {"memory_unit", [](const auto&) { return std::string("MiB"); }},
    {"analytic_memory",
     [](const auto& r) { return r.p.memory ? exact_number(r.p.memory->analytic) : ""; }},
    {"parameters_memory",
     [](const auto& r) { return r.p.memory ? exact_number(r.p.memory->parameters) : ""; }},
    {"optimizer_memory",
     [](const auto& r) { return r.p.memory ? exact_number(r.p.memory->optimizer) : ""; }},
    {"process_peak",
     [](const auto& r) { return r.p.memory ? exact_number(r.p.memory->process_peak) : ""; }},
    {"time", [](const auto& r) { return r.p.time ? exact_number(r.p.time->median) : ""; }},
    {"time_ci95_low", [](const auto& r) { return r.ci95 ? exact_number(r.ci95->low) : ""; }},
    {"time_ci95_high", [](const auto& r) { return r.ci95 ? exact_number(r.ci95->high) : ""; }},
    {"time_unit", [](const auto&) { return to_string(TimeUnit::milliseconds); }},
    {"samples",
     [](const auto& r) { return r.p.time ? fmt::format("{}", r.p.time->samples.size()) : ""; }},
    {"passes",
     [](const auto& r) { return r.p.time ? fmt::format("{}", r.p.time->passes.size()) : ""; }},
    {"noisy", [](const auto& r) { return r.p.noisy; }},
    {"flops", [](const auto& r) { return exact_number(r.p.flops); }},
    {"least_bytes", [](const auto& r) { return exact_number(r.p.least_bytes); }},
    {"roofline_gflops",
     [](const auto& r) { return r.p.roofline ? exact_number(r.p.roofline->gflops) : ""; }},
    {"roofline_gbps",
     [](const auto& r) {
       return r.p.roofline ? exact_number(r.p.roofline->gigabytes_per_second) : "";
     }},
    {"path", [](const auto& r) { return r.p.path; }},
    {"superseded", [](const auto& r) { return fmt::format("{}", r.superseded); }},
};

// By the names of those columns; a row gives those it has.
using LongRow = std::map<std::string, std::string>;

LongRow published_row(const Published& reference, const PublishedCost::Row& from, size_t i) {
  const PublishedCost& cost = *reference.cost;
  return {{"source", fmt::format("{}, {}", reference.paper, cost.where)},
          {"attention", from.name},
          {"options", json_line(from.variant.options)},
          {"scope", fmt::format("{}", fmt::join(cost.scopes, " or "))},
          {"mode", to_string(cost.mode)},
          {"batch", exact_integer(cost.batch)},
          {"heads", exact_integer(cost.heads)},
          {"head_dim", exact_integer(cost.head_dim)},
          {"machine", cost.machine},
          {"length", exact_integer(cost.lengths[i])},
          {"status", to_string(Status::ok)},
          {"peak_memory", exact_number(from.memory[i])},
          {"memory_unit", cost.memory_unit},
          {"time", exact_number(from.time[i])},
          {"time_unit", to_string(cost.time_unit)}};
}

}  // namespace

Table memory_time_long(std::span<const Profile> profiles, std::span<const Published> references) {
  std::set<const Profile*> shown;
  for (const ProfileGroup& group : group_profiles(profiles)) {
    for (const auto& [name, cells] : group.rows) {
      for (const auto& [length, p] : cells) shown.insert(p);
    }
  }
  std::vector<LongProfile> measured;
  for (const Profile& p : profiles) measured.push_back({p, shown_interval(p), !shown.contains(&p)});
  Table table = long_table("Memory and time", kProfileColumns, measured);
  for (const Published& reference : references) {
    if (!reference.cost) continue;
    for (const PublishedCost::Row& from : reference.cost->rows) {
      for (size_t i = 0; i < reference.cost->lengths.size(); ++i) {
        LongRow row = published_row(reference, from, i);
        std::vector<std::string>& cells = table.rows.emplace_back();
        for (const Column& column : table.columns) cells.push_back(std::move(row[column.header]));
      }
    }
  }
  return table;
}

}  // namespace lra
