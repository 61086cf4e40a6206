// What decides the costs of a run, in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "attention_variants/base/text.h"
#include "results/records/json_line.h"
#include "results/records/result.h"
#include "results/records/setup_groups.h"

namespace lra {

bool mixed_peaks(std::span<const Result* const> runs) {
  bool with = false, without = false;
  for (const Result* r : runs) {
    // One that ended before it evaluated says nothing.
    if (!r->training.peak_memory_mib || (!r->dev && !r->test)) continue;
    (r->training.evaluation_peak_memory_mib ? without : with) = true;
  }
  return with && without;
}

bool knows_threads(const Result& result) {
  return result.training.threads || !result.machine.gpu.empty();
}

std::string machine_setting_text(const Result& result) {
  std::string text = machine_text(result.machine);
  const std::string device = result.machine.gpu.empty() ? "cpu" : "cuda",
                    model = cpu_model(result.machine, device);
  if (!model.empty()) text += ", " + model;
  const TrainingCost& cost = result.training;
  if (cost.threads) {
    text += ", " + count_text(*cost.threads, "thread");
  } else if (!knows_threads(result)) {
    text += ", threads not known";
  }
  if (cost.processes > 1) text += fmt::format(", {} processes ({})", cost.processes, cost.engine);
  // Why steps were launched one by one makes none faster.
  if (!cost.execution.empty())
    text += ", " + cost.execution.substr(0, cost.execution.find(' ')) + " steps";
  if (cost.sharing > 1) text += fmt::format(", one of {} runs at a time", cost.sharing);
  const auto setting = [&result](const char* path) {
    const json::json_pointer at(path);
    return result.config.contains(at) ? result.config.at(at) : json();
  };
  const json kernels = setting("/kernels"), part = setting("/training/micro_batch");
  const std::string used =
      kernels == "reference" ? "reference" : kernel_set(result.software, device);
  // A GPU's own kernels are what records of one mean.
  if (!used.empty() && used != "own") text += ", kernels " + used;
  // Of records before they say their kernels.
  const std::string capability = cpu_capability(result.software, device);
  if (used.empty() && !capability.empty()) text += ", LibTorch's " + capability;
  if (part.is_number() && part > 0) text += ", batch in parts of " + json_line(part);
  return text;
}

std::string mixed_programs(std::span<const Result* const> runs) {
  std::vector<std::string> mixed;
  for (const auto& [word, what] : {std::pair("torch", "torch"),
                                   {"denormals", "denormals"},
                                   {"lra", "this program's versions"},
                                   {"commit", "this program's commits"}}) {
    std::set<std::string> values;
    for (const Result* r : runs) {
      const auto it = r->software.find(word);
      values.insert(it != r->software.end() && it->is_string() ? it->get<std::string>()
                                                               : "not known");
    }
    if (values.size() > 1) mixed.push_back(fmt::format("{} {}", what, fmt::join(values, " and ")));
  }
  return fmt::format("{}", fmt::join(mixed, ", "));
}

}  // namespace lra
