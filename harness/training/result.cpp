#include "harness/training/result.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/processes/processes.h"
#include "harness/training/token_evaluation.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

std::vector<int64_t> labels_of(const Split& split, int64_t index) {
  if (!split.has_position_labels()) return {split.label(index)};
  std::vector<int64_t> labels(static_cast<size_t>(split.length(index)));
  split.copy_labels(index, std::ssize(labels), labels.data());
  std::erase(labels, -1);
  return labels;
}

using Fraction = std::optional<double>;

// DataRecord::majority and ::sample_majority of the samples that an evaluation takes.
std::pair<Fraction, Fraction> majorities_of(const Split& split,
                                            const EvaluationOptions& evaluation) {
  std::map<int64_t, int64_t> labels;
  int64_t all = 0, most = 0, of_samples = 0, several = 0;
  const int64_t left_out = evaluation.drop_last ? split.size() % evaluation.batch : 0;
  for (int64_t i = 0; i < split.size() - left_out; ++i) {
    const std::vector<int64_t> of_sample = labels_of(split, i);
    std::map<int64_t, int64_t> own;
    int64_t most_own = 0;
    for (const int64_t label : of_sample) {
      most = std::max(most, ++labels[label]);
      most_own = std::max(most_own, ++own[label]);
    }
    all += std::ssize(of_sample);
    of_samples += most_own;
    several += of_sample.size() > 1 ? 1 : 0;
  }
  if (all == 0) return {};
  const auto share = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(all);
  };
  return {share(most), several > 0 ? Fraction(share(of_samples)) : std::nullopt};
}

std::vector<ParameterGroupRecord> groups_of(const Learner& learner) {
  std::vector<ParameterGroupRecord> groups;
  for (const TrainedGroup& group : learner.groups()) {
    groups.push_back({.parameters = group.name,
                      .lr = group.lr,
                      .weight_decay = group.weight_decay,
                      .count = group.parameter_count()});
  }
  return groups;
}

// What the run started from, with the cost of both.
std::optional<PretrainingRecord> pretrained_of(const TrainRequest& request, const TrainState& at) {
  if (request.config.pretrained.empty()) return std::nullopt;
  PretrainingRecord record = parse_pretraining_record(request.config.pretrained);
  record.total_steps = record.steps + at.step;
  record.total_samples = record.samples + at.step * request.config.settings.training.batch;
  record.total_seconds = record.seconds + at.seconds;
  return record;
}

void add_setting(const TrainRequest& request, TrainingCost& cost) {
  if (request.threads > 0) cost.threads = request.threads;
  if (request.processes == nullptr) return;
  cost.processes = request.processes->size();
  cost.engine = request.processes->engine();
}

void add_execution(const TrainRequest& request, const Learner& learner, TrainingCost& cost) {
  if (!request.device.is_cpu() || request.config.settings.execution == Execution::graph)
    cost.execution = learner.execution().text();
}

}  // namespace

std::string measured_setting(const TrainRequest& request, const Learner& learner) {
  Result result;
  result.machine = host::machine_of(request.device);
  result.software = host::software_json();
  result.config = request.config.to_json();
  add_setting(request, result.training);
  add_execution(request, learner, result.training);
  return machine_setting_text(result);
}

void begin_speeds(TrainState& at) {
  at.measured_from = at.step;
  at.seconds_before = at.seconds;
  at.train_seconds = at.waited_seconds = 0;
  at.sharing = 1;
}

void begin_measures(TrainState& at) {
  begin_speeds(at);
  at.peak_bytes = at.evaluation_peak_bytes = 0;
}

TrainingCost training_cost(const TrainRequest& request, const TrainState& at) {
  TrainingCost cost;
  const Settings& settings = request.config.settings;
  if (at.train_seconds > 0 || at.measured_from > 0) cost.seconds = at.seconds;
  if (at.train_seconds > 0) {
    const double steps = static_cast<double>(at.step - at.measured_from);
    const double tokens = static_cast<double>(settings.training.batch * settings.input.length *
                                              task(request.config.task).inputs);
    cost.steps_per_second = steps / at.train_seconds;
    cost.tokens_per_second = steps * tokens / at.train_seconds;
    // 0 where LibTorch cannot tell what a GPU holds.
    const auto mib = [](int64_t bytes) -> std::optional<double> {
      if (bytes > 0) return static_cast<double>(bytes) / host::kMiB;
      return std::nullopt;
    };
    cost.peak_memory_mib = mib(at.peak_bytes);
    cost.evaluation_peak_memory_mib = mib(at.evaluation_peak_bytes);
    const double threads = static_cast<double>(request.threads),
                 seconds = at.seconds - at.seconds_before;
    if (threads > 0 && seconds > 0 && request.device.is_cpu() && at.waited_seconds != kNotMeasured)
      cost.others = std::clamp(at.waited_seconds / (seconds * threads), 0.0, 1.0);
  }
  cost.measured_from = at.measured_from;
  cost.sharing = std::max(request.sharing, at.sharing);
  add_setting(request, cost);
  return cost;
}

std::string data_kind(const Manifest& manifest) {
  return DataRecord{.source = manifest.source, .synthetic = manifest.synthetic}.kind();
}

Accuracy accuracy_of(const Evaluation& evaluation, int64_t length) {
  constexpr int64_t kClasses = 8;
  const int64_t width = (length + kClasses - 1) / kClasses;
  std::map<int64_t, std::pair<int64_t, int64_t>> classes;  // class -> correct, count
  const auto add = [&](int64_t tokens, int64_t right, int64_t examples) {
    auto& [correct, count] = classes[std::max<int64_t>(tokens - 1, 0) / width];
    correct += right;
    count += examples;
  };
  for (size_t i = 0; i < evaluation.labels.size(); ++i)
    add(evaluation.lengths[i], evaluation.labels[i] == evaluation.predicted[i] ? 1 : 0, 1);
  for (size_t i = 0; i < evaluation.tokens.size(); ++i) {
    const stats::Cluster& sample = evaluation.tokens[i];
    if (sample.count > 0) add(evaluation.lengths[i], sample.correct, sample.count);
  }
  Accuracy accuracy{
      .accuracy = evaluation.accuracy(), .correct = evaluation.correct, .count = evaluation.count};
  const std::vector<stats::Cluster> clusters = evaluation.clusters();
  if (!clusters.empty()) {
    accuracy.samples = std::ssize(clusters);
    accuracy.ci95 = stats::clustered_interval(clusters);
  } else if (evaluation.count > 0) {
    accuracy.ci95 = stats::wilson_interval(evaluation.correct, evaluation.count);
  }
  for (const auto& [index, counts] : classes) {
    accuracy.by_length.push_back(
        {.from = index * width + 1,
         .to = std::min((index + 1) * width, length),
         .accuracy = static_cast<double>(counts.first) / static_cast<double>(counts.second),
         .count = counts.second});
  }
  return accuracy;
}

Result result_of(const TrainRequest& request, const PreparedData& data) {
  const Manifest& manifest = data.manifest();
  Result result;
  result.task = request.config.task;
  result.attention = {.name = request.config.attention.name,
                      .label = request.config.attention.text(),
                      .options = request.config.attention_options};
  result.protocol = request.config.protocol;
  result.regime = request.config.regime;
  result.seed = request.config.seed;
  result.data = {.source = manifest.source,
                 .synthetic = manifest.synthetic,
                 .fingerprint = manifest.fingerprint(),
                 .split = manifest.split,
                 .notes = manifest.notes,
                 .options = manifest.options,
                 .unlike = unlike_public(task(request.config.task), manifest)};
  const Settings& settings = request.config.settings;
  result.metric = metric_of(settings.training.objective);
  if (settings.evaluation.test && !predicts_tokens(settings.training.objective))
    std::tie(result.data.majority, result.data.sample_majority) =
        majorities_of(data.split("test"), settings.evaluation);
  result.machine = host::machine_of(request.device);
  result.software = host::software_json();
  return result;
}

Result result_of(const TrainRequest& request, const PreparedData& data, const TrainState& at,
                 const Learner* learner, const RunOutcome& outcome) {
  Result result = result_of(request, data);
  if (!predicts_tokens(request.config.settings.training.objective))
    std::tie(result.data.dev_majority, result.data.dev_sample_majority) = majorities_of(
        evaluation_split(data, request.config, "dev"), request.config.settings.evaluation);
  result.status = outcome.status;
  result.reason = outcome.reason;
  result.steps = at.step;
  result.config = request.config.to_json();
  result.training = training_cost(request, at);
  result.pretrained = pretrained_of(request, at);
  result.config.erase("pretrained");  // it stands by itself
  if (learner != nullptr) {
    result.attention.options =
        options_in_effect(result.attention.name, learner->model().attention_options());
    if (learner->model().sees_all()) result.attention.sees_all = true;
    result.parameters = learner->model().parameter_count();
    if (!request.config.settings.optimizer.groups.empty())
      result.parameter_groups = groups_of(*learner);
    add_execution(request, *learner, result.training);
  }
  if (at.best_step >= 0) {
    result.best_step = at.best_step;
    result.dev = at.best_dev;
  }
  if (outcome.tested)
    result.test = accuracy_of(*outcome.tested, request.config.settings.input.length);
  return result;
}

}  // namespace lra
