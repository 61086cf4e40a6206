#include "harness/training/console.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_variants/base/json_text.h"
#include "harness/host/progress.h"
#include "harness/processes/processes.h"
#include "harness/training/result.h"
#include "harness/training/token_evaluation.h"

namespace lra {

void say_start(const TrainRequest& request, const PreparedData& data, const Learner& learner) {
  const Config& config = request.config;
  const Settings& settings = config.settings;
  int64_t training_size = 0;
  for (const Split& split : training_splits(data, config)) training_size += split.size();
  const std::string test =
      settings.evaluation.test ? fmt::format("{} test", data.split("test").size()) : "no test";
  const std::string kind = data_kind(data.manifest());
  host::say(fmt::format(
      "{} · {} · {} · seed {} · {} parameters · {} steps of {} · {} train, {} dev, {}{}",
      config.task, config.attention.text(), config.protocol, config.seed,
      learner.model().parameter_count(), settings.training.steps, settings.training.batch,
      training_size, evaluation_split(data, config, "dev").size(), test,
      kind.empty() ? "" : " · " + kind));
  if (learner.model().sees_all()) {
    host::say(fmt::format(
        "{} sees all of {} positions: at this length it is softmax attention, and its score says "
        "nothing of its pattern",
        config.attention.text(), settings.input.length));
  }
  for (const LeftValue& one : config.left) {
    host::say(
        fmt::format("{}, not as {}; {}", one.text(one.attention), config.protocol, one.remedy()));
  }
  if (!settings.optimizer.groups.empty()) {
    for (const TrainedGroup& group : learner.groups()) {
      host::say(fmt::format("  lr {:g}, weight decay {:g}: {} parameters, {}", group.lr,
                            group.weight_decay, group.parameter_count(), group.name));
    }
  }
  if (const Processes* all = request.processes) {
    const Range largest = share_of(settings.training.batch, 0, all->size());
    host::say(fmt::format("{} processes by {}, {} threads each; up to {} samples of a batch each",
                          all->size(), all->engine(), request.threads, largest.end));
  }
  if (settings.evaluation.dev != DevSplit::dev) {
    host::say(fmt::format("evaluation.dev is \"{}\": {}, and dev is trained on",
                          settings.evaluation.dev,
                          settings.evaluation.select_after < 1
                              ? "that split chooses the checkpoint"
                              : "the last checkpoint is tested, which nothing chooses"));
  }
}

void say_pretraining(const Config& first, const Config& run) {
  host::say(fmt::format("pretraining first: {} steps ({}), then the run's {}",
                        first.settings.training.steps, first.settings.training.objective,
                        run.settings.training.steps));
  for (const std::string& key : run.overridden) {
    const std::string own = "pretraining." + key;
    if (!run.settings.pretraining.contains(dotted_pointer(key)) ||
        std::ranges::count(run.overridden, own) > 0)
      continue;
    host::say(fmt::format("{} is of the run alone; of its pretraining the protocol has {}={}", key,
                          own, run.settings.pretraining.at(dotted_pointer(key)).dump()));
  }
}

void say_origin(const PretrainingRecord& origin) {
  host::say(fmt::format(
      "starting from {} (objective {}, step {} of {}): {} tensors taken; not taken: {}; new: {}",
      origin.path, origin.objective, origin.step, origin.steps, origin.taken.size(),
      origin.left.empty() ? "none" : fmt::format("{}", fmt::join(origin.left, ", ")),
      origin.fresh.empty() ? "none" : fmt::format("{}", fmt::join(origin.fresh, ", "))));
}

void say_evaluation(int64_t step, const Evaluation& dev, const std::string& metric, bool better) {
  host::say(fmt::format("step {}: dev {} {:.2f}% ({}/{}), loss {:.4f}{}", step,
                        metric_words(metric), 100 * dev.accuracy(), dev.correct, dev.count,
                        dev.loss, better ? ", the best so far" : ""));
}

void say_end(const Result& result) {
  if (result.status != Status::ok) {
    host::say(to_string(result.status) + ": " + result.reason);
    return;
  }
  const Accuracy& accuracy = result.test ? *result.test : result.dev.value();
  const auto rate = result.training.steps_per_second;
  const std::string speed = rate ? fmt::format(" · {:.3g} steps/s", *rate) : "";
  host::say(fmt::format(
      "{} {} {:.2f}% (95% interval {:.2f} to {:.2f}) with the checkpoint of step {}{}{}",
      result.test ? "test" : "dev", metric_words(result.metric), 100 * accuracy.accuracy,
      100 * accuracy.ci95.low, 100 * accuracy.ci95.high, result.best_step.value_or(-1), speed,
      result.test ? "" : " · not tested (evaluation.test false)"));
}

std::string out_of_memory(const Settings& settings, int64_t step, const std::string& evaluated,
                          bool recorded) {
  const std::string eager =
      recorded ? "; --resume --set execution=eager takes less, and more time" : "";
  if (!evaluated.empty()) {
    return fmt::format(
        "memory ran out in the evaluation of {} after step {}: batches of {}, length {}; a smaller "
        "evaluation.batch takes less, in a new run; with more memory --resume goes on{}",
        evaluated, step, settings.evaluation.batch, settings.input.length, eager);
  }
  return fmt::format(
      "memory ran out at step {}: batch {}, length {}; training.micro_batch makes parts{}", step,
      settings.training.batch, settings.input.length, eager);
}

}  // namespace lra
