#include "harness/suite/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/suite/cell.h"
#include "harness/suite/status.h"
#include "harness/training/run_files.h"
#include "results/records/store.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// Seconds of samples in a probe, and for its process altogether.
constexpr double kProbeSeconds = 2, kProbeTimeout = 300;
// What a process takes before its first step.
constexpr double kStart = 3;
// A forward pass beside a whole training step.
constexpr double kForward = 1.0 / 3;

// What a recipe costs.
struct Rates {
  double step = 0;                   // seconds
  std::optional<double> evaluation;  // of dev, seconds
  std::optional<double> memory_mib;
  std::string from;
  Status status = Status::ok;  // or what such a cell will end as
};

bool same_machine(const Machine& a, const Machine& b) {
  return a.processor == b.processor && a.cores == b.cores && a.gpu == b.gpu;
}

int64_t evaluations(const TrainingOptions& t) {
  return (t.steps + t.evaluate_every - 1) / t.evaluate_every;
}

// Whether two configurations take the same time a step: sizes, batch, type, kernels and the
// attention's options, whatever their learning rates, steps and seeds.
bool same_step(const json& a, const json& b) {
  const json left = config_identity(a), right = config_identity(b);
  const auto part = [](const json& of, const char* group, const char* key) {
    return of.contains(group) && of[group].is_object() && of[group].contains(key) ? of[group][key]
                                                                                  : json();
  };
  for (const char* key : {"task", "dtype", "model", "kernels"}) {
    if (!left.contains(key) || !right.contains(key) || left[key] != right[key]) return false;
  }
  for (const auto& [group, key] : {std::pair{"attention", "name"},
                                   {"attention", "options"},
                                   {"input", "length"},
                                   {"training", "batch"},
                                   {"training", "micro_batch"}}) {
    if (part(left, group, key) != part(right, group, key)) return false;
  }
  return true;
}

std::optional<Rates> rates_of(const Result& result) {
  const TrainingCost& cost = result.training;
  if (!cost.steps_per_second || *cost.steps_per_second <= 0 || result.steps.value_or(0) < 1)
    return std::nullopt;
  if (cost.processes > 1) return std::nullopt;  // a cell is one
  Rates rates{.step = 1 / *cost.steps_per_second, .memory_mib = cost.peak_memory_mib};
  const json& config = result.config;
  if (cost.seconds && config.contains("training")) {
    TrainingOptions training;
    training.steps = *result.steps;
    training.evaluate_every = config["training"].value("evaluate_every", training.steps);
    const double rest = *cost.seconds - static_cast<double>(*result.steps) * rates.step;
    rates.evaluation =
        std::max(rest, 0.0) / static_cast<double>(std::max<int64_t>(evaluations(training), 1));
  }
  return rates;
}

// Whether a call would run the cell.
bool is_open(const Prediction& p) { return p.status == Status::pending || is_retryable(p.status); }

class Predictor {
 public:
  Predictor(const Suite& suite, const PredictOptions& options)
      : suite_(suite),
        options_(options),
        here_(machine_of(parse_device(suite.request.device))),
        probes_(suite.request.out / kProbeFile) {
    for (const TaskData& data : suite_data(suite)) data_[data.task] = data;
    std::vector<fs::path> own, others;
    if (fs::exists(suite.request.out / "runs")) own.push_back(suite.request.out / "runs");
    if (fs::exists(probes_)) own.push_back(probes_);
    own_ = find_records(own);
    for (const fs::path& path : options.records) {
      if (fs::exists(path)) others.push_back(path);
    }
    others_ = find_records(others);
  }

  std::vector<Prediction> run() {
    std::vector<Prediction> all;
    for (const SuiteCell& cell : suite_.cells) all.push_back(predict(cell));
    return all;
  }

 private:
  Prediction predict(const SuiteCell& cell) {
    Prediction p{.status = Status::pending};
    if (const auto status = final_status(cell.run)) {
      const Result result = read_result(cell.run / kResultFile);
      p = {.status = *status,
           .seconds = result.training.seconds,
           .left = 0,
           .memory_mib = result.training.peak_memory_mib,
           .from = "its own run"};
      if (status == Status::ok || status == Status::diverged) return p;
      if (is_retryable(*status)) p = {.status = *status, .memory_mib = p.memory_mib};
    }
    const bool open = is_open(p);
    const auto known = rates(cell);
    if (!known) {
      if (p.from.empty()) p.from = "unknown";
      return p;
    }
    const Settings& s = cell.config.settings;
    if (known->status != Status::ok) {
      if (open) p = {.status = p.status, .seconds = 0, .left = 0, .from = known->from};
      return p;
    }
    const double steps = static_cast<double>(s.training.steps);
    // The test split takes about as long as dev.
    const double evaluation = known->evaluation.value_or(0);
    const double whole = kStart + steps * known->step +
                         static_cast<double>(evaluations(s.training) + 1) * evaluation;
    if (!p.seconds) p.seconds = whole;
    if (!p.memory_mib) p.memory_mib = known->memory_mib;
    if (p.from.empty()) p.from = known->from;
    if (open) p.left = whole * (1 - share_done(cell));
    return p;
  }

  // Of the steps, by the run's log.
  static double share_done(const SuiteCell& cell) {
    const int64_t step = read_metrics(cell.run / kMetricsFile).step;
    return std::clamp(
        static_cast<double>(step) / static_cast<double>(cell.config.settings.training.steps), 0.0,
        1.0);
  }

  // The best that is known of a recipe: a run of this suite, a training step measured alone, a run
  // elsewhere; then a probe, if one is wanted.
  std::optional<Rates> rates(const SuiteCell& cell) {
    const std::string key = cell.config.task + " " + cell.config.attention.text();
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    auto found = from_results(cell, own_, /*same_suite=*/true);
    if (!found) found = from_metrics(cell);
    if (!found) found = from_profiles(cell, own_);
    if (!found) found = from_profiles(cell, others_);
    if (!found) found = from_results(cell, others_, /*same_suite=*/false);
    if (!found && options_.probe) found = probe(cell);
    known_[key] = found;
    return found;
  }

  std::optional<Rates> from_results(const SuiteCell& cell, const Records& records,
                                    bool same_suite) const {
    const json config = cell.config.to_json();
    for (const Result& result : records.results) {
      if (result.task != cell.config.task || !same_machine(result.machine, here_)) continue;
      if (!same_step(result.config, config)) continue;
      const auto threads = result.training.threads
                               ? result.training.threads
                               : threads_of_run(fs::path(result.path).parent_path());
      if (threads && *threads != suite_.request.threads) continue;
      if (auto found = rates_of(result)) {
        found->from = same_suite ? fmt::format("seed {} of this suite", result.seed)
                                 : result.path + (threads ? "" : " (threads not known)");
        return found;
      }
    }
    return std::nullopt;
  }

  // A run of this recipe that has not ended; its evaluations are in the time of its steps.
  std::optional<Rates> from_metrics(const SuiteCell& cell) const {
    for (const SuiteCell& other : suite_.cells) {
      if (other.config.task != cell.config.task ||
          other.config.attention.text() != cell.config.attention.text())
        continue;
      const MetricsTail tail = read_metrics(other.run / kMetricsFile);
      if (tail.rate > 0)
        return Rates{.step = 1 / tail.rate,
                     .from = fmt::format("seed {} of this suite so far", other.config.seed)};
    }
    return std::nullopt;
  }

  std::optional<Rates> from_profiles(const SuiteCell& cell, const Records& records) const {
    const Config& config = cell.config;
    const Settings& s = config.settings;
    const int64_t batch = part(s);
    for (const Profile& profile : records.profiles) {
      const bool same = profile.scope == "model" && profile.mode == "training" &&
                        profile.task == config.task && profile.length == s.input.length &&
                        profile.batch == batch && profile.dtype == config.dtype &&
                        profile.threads.value_or(0) == suite_.request.threads &&
                        profile.attention.name == config.attention.name &&
                        profile.attention.options == config.attention_options &&
                        same_machine(profile.machine, here_) && same_model(profile, config);
      if (!same) continue;
      Rates rates{.from = profile.path, .status = profile.status};
      if (fs::path(profile.path).filename() == kProbeFile) rates.from = "a probe";
      if (profile.status != Status::ok) {
        rates.from += ": " + text(profile.status);
        return rates;
      }
      rates.step = profile.time->median / 1000 * static_cast<double>(s.training.batch) /
                   static_cast<double>(batch);
      rates.memory_mib = profile.memory->peak + profile.memory->parameters.value_or(0);
      if (const auto count = dev_count(config.task)) {
        rates.evaluation = kForward * rates.step * static_cast<double>(*count) /
                           static_cast<double>(s.training.batch);
      }
      return rates;
    }
    return std::nullopt;
  }

  // The batch of one forward and backward.
  static int64_t part(const Settings& s) {
    return s.training.micro_batch > 0 ? std::min(s.training.micro_batch, s.training.batch)
                                      : s.training.batch;
  }

  static bool same_model(const Profile& profile, const Config& config) {
    try {
      std::vector<std::string> sets = {fmt::format("input.length={}", profile.length),
                                       fmt::format("model.heads={}", profile.heads),
                                       fmt::format("model.head_dim={}", profile.head_dim)};
      for (const json& set : profile.sets) sets.push_back(set);
      const Config of = make_config(load_protocol(profile.protocol), profile.task,
                                    {.name = profile.attention.name}, sets, 0, profile.dtype);
      return of.settings.kernels == config.settings.kernels &&
             write_fields(of.settings.model) == write_fields(config.settings.model);
    } catch (const UsageError&) {  // of a protocol that is not here
      return false;
    }
  }

  // The samples that an evaluation takes: those there are, or will be.
  std::optional<int64_t> dev_count(const std::string& task_name) const {
    const TaskData& data = data_.at(task_name);
    const fs::path manifest = data.directory / task_name / "manifest.json";
    if (fs::exists(manifest)) {
      const Manifest read = Manifest::read(manifest);
      const auto dev = read.splits.find("dev");
      if (dev != read.splits.end()) return dev->second.count;
    }
    if (data.make && data.make->dev > 0) return data.make->dev;
    return std::nullopt;
  }

  // Measures a few training steps in a process of their own.
  std::optional<Rates> probe(const SuiteCell& cell) {
    const Settings& s = cell.config.settings;
    fs::create_directories(probes_.parent_path());
    say(fmt::format("probe: {} {}", cell.config.task, cell.config.attention.text()));
    std::vector<std::string> words = {"profile",
                                      "--preset",
                                      "lra",
                                      "--scope",
                                      "model",
                                      "--mode",
                                      "training",
                                      "--task",
                                      cell.config.task,
                                      "--protocol",
                                      suite_.request.protocol,
                                      "--attentions",
                                      cell.config.attention.text(),
                                      "--lengths",
                                      std::to_string(s.input.length),
                                      "--batch",
                                      std::to_string(part(s)),
                                      "--heads",
                                      std::to_string(s.model.heads),
                                      "--head-dim",
                                      std::to_string(s.model.head_dim),
                                      "--dtype",
                                      cell.config.dtype,
                                      "--threads",
                                      std::to_string(suite_.request.threads),
                                      "--device",
                                      suite_.request.device,
                                      "--seconds",
                                      fmt::format("{}", kProbeSeconds),
                                      "--passes",
                                      "1",
                                      "--timeout",
                                      fmt::format("{}", kProbeTimeout),
                                      "--out",
                                      probes_.string()};
    for (const std::string& set : cell.sets) words.insert(words.end(), {"--set", set});
    const ChildStatus ended = run_child(words, {.capture = true});
    if (ended.exit != 0 || ended.signal != 0) {
      say(fmt::format("the probe failed: {}", last_line(ended.err)));
      return std::nullopt;
    }
    return from_profiles(cell, find_records({probes_}));
  }

  const Suite& suite_;
  const PredictOptions& options_;
  const Machine here_;
  const fs::path probes_;
  std::map<std::string, TaskData> data_;
  Records own_, others_;
  std::map<std::string, std::optional<Rates>> known_;  // by task and attention
};

std::string time_text(const std::optional<double>& seconds) {
  return seconds ? duration_text(*seconds) : "?";
}

struct Totals {
  size_t ended = 0, pending = 0, unknown = 0;
  double whole = 0, left = 0, span = 0;  // seconds of what is known
};

Totals totals_of(const std::vector<Prediction>& predictions, int64_t jobs) {
  Totals totals;
  std::vector<double> pending;
  for (const Prediction& p : predictions) {
    (is_open(p) ? totals.pending : totals.ended) += 1;
    if (is_open(p) && !p.left) ++totals.unknown;
    totals.whole += p.seconds.value_or(0);
    totals.left += p.left.value_or(0);
    if (p.left && *p.left > 0) pending.push_back(*p.left);
  }
  totals.span = makespan(pending, jobs);
  return totals;
}

}  // namespace

std::vector<Prediction> predict(const Suite& suite, const PredictOptions& options) {
  return Predictor(suite, options).run();
}

double makespan(const std::vector<double>& pending, int64_t jobs) {
  std::vector<double> free_at(static_cast<size_t>(std::max<int64_t>(jobs, 1)), 0);
  for (const double seconds : pending) *std::ranges::min_element(free_at) += seconds;
  return std::ranges::max(free_at);
}

Table plan_table(const Suite& suite, const std::vector<Prediction>& predictions, int64_t jobs) {
  Table table{.title = "",
              .columns = {{"cell"},
                          {"task", Align::kLeft},
                          {"attention", Align::kLeft},
                          {"seed"},
                          {"steps"},
                          {"state", Align::kLeft},
                          {"time"},
                          {"left"},
                          {"memory MiB"},
                          {"from", Align::kLeft}},
              .rows = {},
              .notes = {}};
  for (size_t i = 0; i < suite.cells.size(); ++i) {
    const Config& config = suite.cells[i].config;
    const Prediction& p = predictions[i];
    table.rows.push_back(
        {std::to_string(i), config.task, config.attention.text(), std::to_string(config.seed),
         std::to_string(config.settings.training.steps), text(p.status), time_text(p.seconds),
         time_text(p.left), p.memory_mib ? fmt::format("{:.0f}", *p.memory_mib) : "?", p.from});
  }
  const Totals totals = totals_of(predictions, jobs);
  std::string line = fmt::format("{} cell{}: {} ended, {} to run, about {} of work",
                                 suite.cells.size(), suite.cells.size() == 1 ? "" : "s",
                                 totals.ended, totals.pending, duration_text(totals.left));
  if (jobs > 1) line += fmt::format(", {} with {} at a time", duration_text(totals.span), jobs);
  table.notes.push_back(line);
  if (totals.unknown > 0) {
    table.notes.push_back(fmt::format(
        "{} of them not counted: nothing is known of them on this machine with {} thread{} a cell; "
        "--probe measures them",
        totals.unknown, suite.request.threads, suite.request.threads == 1 ? "" : "s"));
  }
  if (suite.fraction < 1) {
    table.notes.push_back(fmt::format("--max-hours {:g}: cut to {:.3g} % of the steps",
                                      suite.request.max_hours, 100 * suite.fraction));
  }
  return table;
}

json plan_json(const Suite& suite, const std::vector<Prediction>& predictions, int64_t jobs) {
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json();
  };
  const Totals totals = totals_of(predictions, jobs);
  json value = {{"out", suite.request.out.string()},
                {"threads", suite.request.threads},
                {"jobs", jobs},
                {"fraction", suite.fraction},
                {"ended", totals.ended},
                {"pending", totals.pending},
                {"unknown", totals.unknown},
                {"seconds_left", totals.left},
                {"seconds_left_with_jobs", totals.span},
                {"cells", json::array()}};
  for (size_t i = 0; i < suite.cells.size(); ++i) {
    const SuiteCell& cell = suite.cells[i];
    const Prediction& p = predictions[i];
    value["cells"].push_back({{"cell", i},
                              {"task", cell.config.task},
                              {"attention", cell.config.attention.text()},
                              {"seed", cell.config.seed},
                              {"run", cell.run.string()},
                              {"steps", cell.config.settings.training.steps},
                              {"status", p.status},
                              {"seconds", number(p.seconds)},
                              {"seconds_left", number(p.left)},
                              {"memory_mib", number(p.memory_mib)},
                              {"from", p.from}});
  }
  return value;
}

double predicted_hours(const Suite& suite, const std::vector<Prediction>& predictions,
                       int64_t jobs) {
  std::vector<double> seconds;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (!predictions[i].seconds) {
      throw Error(
          fmt::format("--max-hours: nothing is known of {} here, and its probe failed; "
                      "leave it out, or run without --max-hours",
                      suite.cells[i].label()));
    }
    seconds.push_back(*predictions[i].seconds);
  }
  return makespan(seconds, jobs) / 3600;
}

}  // namespace lra
