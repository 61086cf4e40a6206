#include "results/analysis/compare_sides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "results/analysis/identities.h"
#include "results/statistics/statistics.h"

namespace lra {

std::optional<double> ComparedSide::median_cost(std::optional<double> TrainingCost::*which) const {
  std::vector<double> values;
  std::set<std::string> machines;
  for (const Result* r : runs) {
    const std::optional<double> value = r->training.*which;
    if (!value || *value <= 0) continue;
    values.push_back(*value);
    machines.insert(machine_setting_text(*r));
  }
  if (machines.size() != 1) return std::nullopt;
  return stats::quantile(values, 0.5);
}

void compare_costs(RunComparison& c) {
  std::set<std::string> machines;
  bool known = false, unknown_model = false;
  for (const ComparedSide* side : {&c.a, &c.b}) {
    for (const Result* r : side->runs) {
      machines.insert(machine_setting_text(*r));
      (r->machine.processor_model.empty() ? unknown_model : known) = true;
    }
  }
  if (machines.size() > 1) {
    c.notes.push_back(fmt::format(
        "time and memory are not compared across machines or settings: {}{}",
        fmt::join(machines, "; "),
        known && unknown_model ? " (older records do not say the processor's model)" : ""));
    return;
  }
  std::string unknown;
  double others = 0;
  bool load_known = true;
  for (const ComparedSide* side : {&c.a, &c.b}) {
    for (const Result* r : side->runs) {
      if (!knows_threads(*r)) unknown = r->path;
      if (r->training.noisy()) others = std::max(others, *r->training.others);
      load_known = load_known && (r->training.others || !r->machine.gpu.empty());
    }
  }
  if (!unknown.empty()) {
    c.notes.push_back(fmt::format(
        "time and memory are not compared: {} does not say how many threads it had", unknown));
    return;
  }
  const auto ratio = [](const ComparedSide& over, const ComparedSide& under, auto which) {
    const auto a = over.median_cost(which), b = under.median_cost(which);
    return a && b ? std::optional(*a / *b) : std::nullopt;
  };
  c.time_ratio = ratio(c.b, c.a, &TrainingCost::steps_per_second);
  std::vector<const Result*> runs = c.a.runs;
  runs.insert(runs.end(), c.b.runs.begin(), c.b.runs.end());
  if (mixed_peaks(runs)) {
    c.notes.emplace_back(
        "memory is not compared: the peaks of some runs hold evaluations, as older records have "
        "it");
  } else {
    c.memory_ratio = ratio(c.a, c.b, &TrainingCost::peak_memory_mib);
  }
  if (const std::string mixed = mixed_programs(runs); !mixed.empty() && c.time_ratio)
    c.notes.push_back("not all trained by one program: " + mixed);
  if (c.time_ratio && !load_known)
    c.notes.emplace_back(
        "what else ran while these trained is not known: the speeds may say as much of that");
  if (c.time_ratio && others > 0)
    c.notes.push_back(
        fmt::format("others took up to {:.0f} % of the processors' time while these trained: the "
                    "speeds say as much of that",
                    100 * others));
}

void note_learning(RunComparison& c, const Baseline& baseline) {
  for (const ComparedSide* side : {&c.a, &c.b}) {
    const size_t of = side->runs.size(), failed = of - side->learned.learned;
    if (failed > 0)
      c.notes.push_back(fmt::format("WARNING: {} was not learned by {} in {} of {} runs: {}",
                                    c.task, side->name, failed, of, unlearned_text(baseline)));
    if (side->diverged() > 0)
      c.notes.push_back(fmt::format(
          "WARNING: {} of {} seeds of {} diverged: they did not learn {}, and the mean is that of "
          "the others alone",
          side->diverged(), side->learned.of, side->name, c.task));
  }
}

void note_own_values(RunComparison& c) {
  const Result &a = *c.a.runs[0], &b = *c.b.runs[0];
  const DottedSettings ours = variant_settings_of(a, a.budget),
                       theirs = variant_settings_of(b, b.budget);
  std::vector<std::string> differing;
  for (const auto& [key, value] : ours) {
    const auto other = theirs.find(key);
    if (other != theirs.end() && other->second != value)
      differing.push_back(fmt::format("{} is {} for {} and {} for {}", key, value, c.a.name,
                                      other->second, c.b.name));
  }
  if (!differing.empty())
    c.notes.push_back(
        fmt::format("the protocol has values for attentions: {}", fmt::join(differing, "; ")));
}

}  // namespace lra
