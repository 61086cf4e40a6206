#include "harness/suite/plan/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "attention_variants/base/error.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/profile/profile_run.h"
#include "harness/suite/cell.h"
#include "harness/suite/plan/rates.h"
#include "harness/suite/status.h"
#include "harness/training/run_folder.h"
#include "results/store/store.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

// Seconds of samples in a probe, and for each of its processes altogether.
constexpr double kProbeSeconds = 2, kProbeTimeout = 300;
// What a process takes before its first step.
constexpr double kStart = 3;

// Measures a few training steps of a cell, as one cell of a profile.
std::optional<Rates> probe(const SuiteCell& cell, const RateRecords& from) {
  const Suite& suite = from.suite;
  const Settings& s = cell.config.settings;
  fs::create_directories(suite.request.out);
  host::say(fmt::format("probe: {} {}", cell.config.task, cell.config.attention.text()));
  try {
    const host::Quiet quiet;
    const profile::ProfileCell step = profile::validated_cell({.attention = cell.config.attention,
                                                               .length = s.input.length,
                                                               .batch = pass_batch(s),
                                                               .heads = s.model.heads,
                                                               .head_dim = s.model.head_dim,
                                                               .scope = ProfileScope::model,
                                                               .mode = ProfileMode::training,
                                                               .dtype = cell.config.dtype,
                                                               .protocol = suite.request.protocol,
                                                               .task = cell.config.task,
                                                               .sets = cell.sets});
    const fs::path file = suite.request.out / kProbeFile;
    profile::run_profile({.cells = {step},
                          .out = file,
                          .device = suite.request.device,
                          .threads = suite.request.threads,
                          .seconds = kProbeSeconds,
                          .timeout = kProbeTimeout,
                          .passes = 1,
                          .roofline = false});
    return rates_from_profiles(cell, from, find_records({file}).profiles);
  } catch (const host::Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    host::say(fmt::format("the probe failed: {}", first_line(error)));
    return std::nullopt;
  }
}

// Seconds of a run, of all it takes and of what is still to come.
struct Work {
  double whole = 0, left = 0;
};

// Of the steps, by the run's log.
double share_done(const SuiteCell& cell) {
  const int64_t step = read_log_tail(cell.run / kMetricsFile).step;
  return std::clamp(
      static_cast<double>(step) / static_cast<double>(cell.config.settings.training.steps), 0.0,
      1.0);
}

Work work_of(const SuiteCell& cell, const Rates& known) {
  const Settings& s = cell.config.settings;
  // The test split takes about as long as dev.
  const int64_t evaluations = evaluation_count(s.training) + (s.evaluation.test ? 1 : 0);
  const double whole = kStart + static_cast<double>(s.training.steps) * known.step +
                       static_cast<double>(evaluations) * known.evaluation.value_or(0);
  return {.whole = whole, .left = whole * (1 - share_done(cell))};
}

// Remembers what it found of each recipe.
class Predictor {
 public:
  Predictor(const Suite& suite, const PredictOptions& options)
      : records_(suite, options.records), probe_(options.probe) {}

  Prediction predict(const SuiteCell& cell) {
    Prediction p{.status = Status::pending};
    if (const auto result = final_result(cell.run)) {
      const Status status = result->status;
      p = {.status = status,
           .seconds = result->seconds(),
           .left = 0,
           .memory_mib = result->training.most_memory_mib(),
           .from = "its own run",
           .open = false};
      if (status == Status::ok || status == Status::diverged) return p;
      if (is_retryable(cell.run, status)) p = {.status = status, .memory_mib = p.memory_mib};
    }
    const bool open = p.open;
    const auto known = rates(cell);
    if (!known) {
      if (p.from.empty()) p.from = kUnknown;
      return p;
    }
    if (known->status != Status::ok) {
      if (open) p = {.status = p.status, .seconds = 0, .left = 0, .from = known->from};
      return p;
    }
    Work work = work_of(cell, *known);
    std::optional<double> memory = known->memory_mib;
    if (p.from.empty()) p.from = known->from;
    if (open) add_first(cell, p, work, memory);
    if (!p.seconds) p.seconds = work.whole;
    if (!p.memory_mib) p.memory_mib = memory;
    if (open) p.left = work.left;
    return p;
  }

 private:
  // What the run before the cell's own adds, where there is one.
  void add_first(const SuiteCell& cell, Prediction& p, Work& work, std::optional<double>& memory) {
    const std::vector<SuiteCell> runs = runs_of(cell);
    if (runs.size() == 1) return;
    const auto known = rates(runs.front());
    p.second_alone = !known;
    if (!known) {
      p.from += ", without its pretraining";
      return;
    }
    const Work first = work_of(runs.front(), *known);
    work.whole += first.whole;
    work.left += first.left;
    memory = std::max(memory, known->memory_mib);  // nothing known is less than anything
  }

  std::optional<Rates> rates(const SuiteCell& cell) {
    const Objective objective = cell.config.settings.training.objective;
    const std::string key = fmt::format("{} {} {}", cell.config.task, cell.config.attention.text(),
                                        to_string(objective));
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    auto found = known_rates(cell, records_);
    // A profile measures steps of the task itself.
    if (!found && probe_ && !predicts_tokens(objective)) found = probe(cell, records_);
    known_[key] = found;
    return found;
  }

  const RateRecords records_;
  const bool probe_;
  std::map<std::string, std::optional<Rates>> known_;  // by task, attention and objective
};

}  // namespace

std::vector<Prediction> predict(const Suite& suite, const PredictOptions& options) {
  Predictor predictor(suite, options);
  std::vector<Prediction> all;
  for (const SuiteCell& cell : suite.cells) all.push_back(predictor.predict(cell));
  return all;
}

}  // namespace lra::suite
