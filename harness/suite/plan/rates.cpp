#include "harness/suite/plan/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "attention_variants/base/files.h"
#include "harness/host/runtime.h"
#include "harness/profile/cell.h"
#include "harness/suite/cell.h"
#include "harness/suite/status.h"
#include "harness/suite/suite_data.h"
#include "harness/training/run_folder.h"
#include "results/records/file_names.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

// A forward pass beside a whole training step.
constexpr double kForward = 1.0 / 3;

bool same_machine(const Machine& a, const Machine& b) {
  const bool same_model = a.processor_model.empty() || b.processor_model.empty() ||
                          a.processor_model == b.processor_model;
  return a.processor == b.processor && same_model && a.usable() == b.usable() && a.gpu == b.gpu;
}

// Whether two configurations take the same time a step: sizes, batch, type, kernels, objective and
// the attention's options, whatever their learning rates, steps and seeds.
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
                                   {"training", "micro_batch"},
                                   {"training", "objective"}}) {
    if (part(left, group, key) != part(right, group, key)) return false;
  }
  return true;
}

std::optional<Rates> rates_of(const Result& result) {
  const TrainingCost& cost = result.training;
  if (!cost.steps_per_second || *cost.steps_per_second <= 0 || result.steps.value_or(0) < 1)
    return std::nullopt;
  if (cost.processes > 1) return std::nullopt;  // a cell is one
  Rates rates{.step = 1 / *cost.steps_per_second, .memory_mib = cost.most_memory_mib()};
  const json& config = result.config;
  if (cost.seconds && cost.measured_from == 0 && config.contains("training")) {
    TrainingOptions training;
    training.steps = *result.steps;
    training.evaluate_every = config["training"].value("evaluate_every", training.steps);
    const double rest = *cost.seconds - static_cast<double>(*result.steps) * rates.step;
    rates.evaluation =
        std::max(rest, 0.0) / static_cast<double>(std::max<int64_t>(evaluation_count(training), 1));
  }
  return rates;
}

std::optional<Rates> from_results(const SuiteCell& cell, const RateRecords& from,
                                  const std::vector<Result>& results, bool same_suite) {
  const json config = cell.config.to_json();
  for (const Result& result : results) {
    if (result.task != cell.config.task || !same_machine(result.machine, from.here)) continue;
    if (!same_step(result.config, config)) continue;
    const auto threads = result.training.threads
                             ? result.training.threads
                             : read_run_setting(fs::path(result.path).parent_path()).threads;
    if (threads && *threads != from.suite.request.threads) continue;
    if (auto found = rates_of(result)) {
      found->from = same_suite ? fmt::format("seed {} of this suite", result.seed)
                               : result.path + (threads ? "" : " (threads not known)");
      return found;
    }
  }
  return std::nullopt;
}

bool same_recipe(const Config& a, const Config& b) {
  return a.task == b.task && a.attention.text() == b.attention.text() &&
         a.settings.training.objective == b.settings.training.objective;
}

// A run of this recipe that has not ended; its evaluations are in the time of its steps.
std::optional<Rates> from_metrics(const SuiteCell& cell, const RateRecords& from) {
  for (const SuiteCell& planned : from.suite.cells) {
    for (const SuiteCell& other : runs_of(planned)) {
      if (!same_recipe(other.config, cell.config)) continue;
      const LogTail tail = read_log_tail(other.run / kMetricsFile);
      if (tail.rate > 0)
        return Rates{.step = 1 / tail.rate,
                     .from = fmt::format("seed {} of this suite so far", other.config.seed)};
    }
  }
  return std::nullopt;
}

// The protocol that a record names: the suite's own may be a file, which must not have changed
// since.
std::optional<Protocol> protocol_of(const Profile& profile, const RateRecords& from) {
  if (profile.protocol != from.protocol.name) return load_protocol(profile.protocol);
  const bool is_file = from.suite.request.protocol != from.protocol.name;
  if (is_file && profile.protocol_sha256 != profile::protocol_sha256(from.protocol, profile.task))
    return std::nullopt;
  return from.protocol;
}

bool same_model(const Profile& profile, const Config& config, const RateRecords& from) {
  try {
    const std::optional<Protocol> protocol = protocol_of(profile, from);
    if (!protocol) return false;
    std::vector<std::string> sets = {fmt::format("input.length={}", profile.length),
                                     fmt::format("model.heads={}", profile.heads),
                                     fmt::format("model.head_dim={}", profile.head_dim)};
    sets.insert(sets.end(), profile.sets.begin(), profile.sets.end());
    // A record holds all options: what nobody asked for is left out.
    AttentionSpec attention{.name = profile.attention.name};
    const json& defaults = attention_entry(attention.name).default_options;
    for (const auto& [key, value] : profile.attention.options.items()) {
      if (!defaults.contains(key) || defaults[key] != value) attention.options[key] = value;
    }
    const Config of = make_config(*protocol, profile.task, attention, sets, 0, profile.dtype);
    return of.settings.kernels == config.settings.kernels &&
           of.settings.training.objective == config.settings.training.objective &&
           write_fields(of.settings.model) == write_fields(config.settings.model);
  } catch (const UsageError&) {  // of a protocol that is not here
    return false;
  }
}

// The samples that an evaluation takes: those there are, or will be.
int64_t dev_count(const TaskData& data) {
  const fs::path manifest = data.directory / data.task / kManifestFile;
  if (fs::exists(manifest)) {
    const Manifest read = Manifest::read(manifest);
    const auto dev = read.splits.find("dev");
    if (dev != read.splits.end()) return dev->second.count;
  }
  return data.make && data.make->dev > 0 ? data.make->dev : task(data.task).dev;
}

}  // namespace

RateRecords::RateRecords(const Suite& of, const std::vector<fs::path>& paths)
    : suite(of),
      protocol(load_protocol(of.request.protocol)),
      here(host::machine_of(host::parse_device(of.request.device))) {
  for (const TaskData& task_data : suite_data(suite)) data[task_data.task] = task_data;
  const auto existing = [](std::vector<fs::path> all) {
    std::erase_if(all, [](const fs::path& path) { return !fs::exists(path); });
    return all;
  };
  own = find_records(existing({of.request.out / kRunsFolder, of.request.out / kProbeFile}));
  others = find_records(existing(paths));
  for (Records* all : {&own, &others}) {
    std::vector<fs::path> firsts;
    for (const Result& result : all->results) {
      const fs::path first = fs::path(result.path).parent_path() / kPretrainingFolder;
      if (result.pretrained) firsts.push_back(first / kResultFile);
    }
    std::ranges::move(find_records(existing(firsts)).results, std::back_inserter(all->results));
  }
}

int64_t pass_batch(const Settings& s) {
  return s.training.micro_batch > 0 ? std::min(s.training.micro_batch, s.training.batch)
                                    : s.training.batch;
}

int64_t evaluation_count(const TrainingOptions& t) {
  return (t.steps + t.evaluate_every - 1) / t.evaluate_every;
}

std::optional<Rates> rates_from_profiles(const SuiteCell& cell, const RateRecords& from,
                                         const std::vector<Profile>& profiles) {
  const Config& config = cell.config;
  const Settings& s = config.settings;
  const int64_t batch = pass_batch(s);
  for (const Profile& profile : profiles) {
    const bool same = profile.scope == ProfileScope::model &&
                      profile.mode == ProfileMode::training && profile.task == config.task &&
                      profile.length == s.input.length && profile.batch == batch &&
                      profile.dtype == to_string(config.dtype) &&
                      profile.threads.value_or(0) == from.suite.request.threads &&
                      profile.attention.name == config.attention.name &&
                      profile.attention.options == config.attention_options &&
                      same_machine(profile.machine, from.here) && same_model(profile, config, from);
    if (!same) continue;
    Rates rates{.from = profile.path, .status = profile.status};
    if (fs::path(profile.path).filename() == kProbeFile) rates.from = "a probe";
    if (profile.status != Status::ok) {
      rates.from += ": " + to_string(profile.status);
      return rates;
    }
    rates.step = profile.time->median / 1000 * static_cast<double>(s.training.batch) /
                 static_cast<double>(batch);
    if (const auto& peak = profile.memory->peak)
      rates.memory_mib =
          *peak + profile.memory->parameters.value_or(0) + profile.memory->optimizer.value_or(0);
    rates.evaluation = kForward * rates.step *
                       static_cast<double>(dev_count(from.data.at(config.task))) /
                       static_cast<double>(s.training.batch);
    return rates;
  }
  return std::nullopt;
}

std::optional<Rates> known_rates(const SuiteCell& cell, const RateRecords& from) {
  auto found = from_results(cell, from, from.own.results, /*same_suite=*/true);
  if (!found) found = from_metrics(cell, from);
  if (!found) found = rates_from_profiles(cell, from, from.own.profiles);
  if (!found) found = rates_from_profiles(cell, from, from.others.profiles);
  if (!found) found = from_results(cell, from, from.others.results, /*same_suite=*/false);
  return found;
}

}  // namespace lra::suite
