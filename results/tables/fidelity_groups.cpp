#include "results/tables/fidelity_groups.h"

#include <fmt/format.h>

#include "attention_variants/base/text.h"
#include "results/analysis/attention_names.h"
#include "results/records/result.h"
#include "results/records/setup_groups.h"

namespace lra {
namespace {

constexpr const char* kNames[] = {"Landmarks on raw scores", "Landmarks on softmax attention",
                                  "Iterations of the inverse", "All approximations"};

// Where times are of: the machine, its processor and the kernels.
std::string cpu_text(const Fidelity& f) {
  const std::string model = cpu_model(f.machine, f.device),
                    kernels = cpu_kernels(f.software, f.device);
  return machine_text(f.machine) + (model.empty() ? "" : ", " + model) +
         (kernels.empty() ? "" : ", kernels " + kernels);
}

FidelitySetting setting_of(const Fidelity& f) {
  return {f.experiment,
          fidelity_data_text(f.data) + f.data.identity,
          f.layer.value_or(-1),
          f.length,
          f.heads,
          f.head_dim,
          f.trials,
          f.seed,
          f.budget,
          f.device,
          f.threads.value_or(0),
          cpu_text(f)};
}

// Labels that were measured with several sets of options or number types are several rows.
void add_rows(FidelityGroup& group) {
  // The budget is among the effective options, and is no difference.
  std::map<const Fidelity*, json> rest;
  std::map<std::string, std::vector<const json*>> options;
  std::set<std::string> all_types, budgets;
  for (const Fidelity* f : group.cells) {
    all_types.insert(f->dtype);
    json& own = rest[f] = f->attention.options;
    own.erase(f->budget);
    options[f->attention.label].push_back(&own);
    if (!f->budget.empty()) budgets.insert(f->budget);
  }
  for (const Fidelity* f : group.cells) {
    std::string name = name_with(f->attention.label,
                                 differing_options(rest.at(f), options.at(f->attention.label)));
    if (all_types.size() > 1) name += fmt::format(", {}", f->dtype);
    FidelityRow& row = group.rows[name];
    if (f->budget.empty()) {
      group.repeated |= row.fixed != nullptr;
      row.fixed = f;  // the later line stands
      group.has_fixed = true;
    } else {
      group.repeated |= row.cells.contains(f->budget_value);
      row.cells[f->budget_value] = f;
      group.values.insert(f->budget_value);
    }
  }
  if (all_types.size() == 1) group.dtype = *all_types.begin();
  group.budget = budgets.size() == 1 ? *budgets.begin() : "budget";
}

}  // namespace

std::string fidelity_data_text(const FidelityData& data) {
  if (!data.from_run()) return data.source;
  const std::string kind =
      DataRecord{.source = data.data_source, .synthetic = data.synthetic}.kind();
  return fmt::format("{} trained on {} ({}, seed {}, step {}), data {}{}", data.attention,
                     data.task, data.protocol, data.seed, data.step, data.fingerprint.substr(0, 12),
                     kind.empty() ? "" : ", " + kind);
}

std::string fidelity_heading(const Fidelity& f) {
  const std::string experiment = f.experiment <= std::ssize(kNames)
                                     ? kNames[f.experiment - 1]
                                     : fmt::format("Experiment {}", f.experiment);
  const std::string layer = f.layer ? fmt::format("layer {} of ", *f.layer) : "";
  return fmt::format("{}, {}{}", experiment, layer, fidelity_data_text(f.data));
}

std::string fidelity_setting_text(const FidelityGroup& group) {
  const Fidelity& f = *group.cells.front();
  const std::string threads = f.threads ? ", " + count_text(*f.threads, "thread") : "";
  return fmt::format("length {}, {} of {}, {}, seed {}, {}{}{}, on {}", f.length,
                     count_text(f.heads, "head"), f.head_dim, count_text(f.trials, "trial"), f.seed,
                     group.dtype.empty() ? "" : group.dtype + ", ", f.device, threads, cpu_text(f));
}

std::map<FidelitySetting, FidelityGroup> fidelity_groups(std::span<const Fidelity> cells) {
  std::map<FidelitySetting, FidelityGroup> groups;
  for (const Fidelity& f : cells) {
    FidelitySetting setting = setting_of(f);
    // Every approximation has a budget of its own; they stand on one scale there.
    if (f.experiment == 4) std::get<8>(setting).clear();
    groups[setting].cells.push_back(&f);
  }
  for (auto& [setting, group] : groups) add_rows(group);
  return groups;
}

}  // namespace lra
