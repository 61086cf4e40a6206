#include "harness/training/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "attention_variants/base/files.h"
#include "attention_variants/out_of_memory.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/processes/data_parallel.h"
#include "harness/processes/processes.h"
#include "harness/training/console.h"
#include "harness/training/contract_check.h"
#include "harness/training/cost_meter.h"
#include "harness/training/evaluation.h"
#include "harness/training/failure.h"
#include "harness/training/learner.h"
#include "harness/training/pretraining.h"
#include "harness/training/result.h"
#include "harness/training/resume.h"
#include "harness/training/token_evaluation.h"
#include "harness/training/train_setup.h"

namespace lra {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// As the first process sees it.
bool is_finished(const RunFolder& folder, Processes* all) {
  bool finished = false;
  run_collective(all, [&] { finished = folder.is_finished(); });
  return all == nullptr ? finished : all->gather(finished ? 1 : 0).front() != 0;
}

// Whether an evaluation at this step may choose the checkpoint that is tested.
bool chooses(const Settings& settings, int64_t step) {
  const int64_t steps = settings.training.steps;
  return step == steps ||
         static_cast<double>(step) > settings.evaluation.select_after * static_cast<double>(steps);
}

// The learning rate of the last of `steps` steps.
double rate_before(const Settings& settings, int64_t steps) {
  return schedule_at(steps - 1, settings.training.steps, settings.optimizer, settings.schedule).lr;
}

int64_t checkpoint_every(const TrainingOptions& t) {
  return t.checkpoint_every > 0 ? t.checkpoint_every : t.evaluate_every;
}

// Parameters, buffers and what else decides the next step are the same bits in all processes.
void check_same_run(Processes* all, const RunFolder& folder, int64_t step, const Model& model) {
  if (all == nullptr) return;
  check_same(*all,
             fmt::format("{} {} {}", step, sha256(folder.identity().dump()), state_sha256(model)),
             fmt::format("the run at step {}", step));
}

// Of a state whose step is the best so far.
void note_best(TrainState& at, const Evaluation& dev, int64_t length) {
  at.best_accuracy = dev.accuracy();
  at.best_step = at.step;
  at.best_dev = accuracy_of(dev, length);
}

PreparedData checked_data(const TrainRequest& request) {
  // Data made anew by default options need not be those that a run was begun on.
  if (request.resume == Resume::yes && std::filesystem::exists(request.run / kConfigFile) &&
      !std::filesystem::exists(request.data / request.config.task) &&
      folder_above(request.data, request.config.task).empty()) {
    throw Error(fmt::format("the data of {} are not in {}; say where they are with --data",
                            request.run.string(), request.data.string()));
  }
  PreparedData data = open_run_data(request.data, request.config, /*check_hashes=*/true);
  check_data(data, request.config);
  return data;
}

// The order of a run: steps, evaluations, the choice of the best, the test, and the status.
class TrainingLoop {
 public:
  explicit TrainingLoop(const TrainRequest& request)
      : data_(checked_data(request)),
        origin_(origin_of(request, data_.manifest().fingerprint())),
        request_(with_origin(request, origin_)),
        settings_(request_.config.settings),
        all_(request.processes),
        micro_batches_(micro_batches_of(request)),
        folder_(request.run, run_identity(request_.config, data_.manifest().fingerprint()),
                request.resume, is_rank_zero(all_) ? Access::write : Access::read) {}

  Status run() {
    if (is_finished(folder_, all_)) {
      host::say(folder_.text() + " is finished already; its result.json stands");
      return Status::ok;
    }
    limit_memory(request_);
    RunOutcome outcome;
    bool trained = false;
    try {
      run_collective(all_, [&] { make_learner(); });
      start();
      trained = fit();
      if (!trained) {
        outcome = diverged_by(at_.step);
      } else if (settings_.evaluation.test) {
        outcome.tested = test();
        if (!std::isfinite(outcome.tested->loss)) outcome = diverged_on_test(at_.best_step);
      }
    } catch (const std::exception& error) {
      outcome = outcome_of(error, request_, at_.step, evaluating_,
                           learner_ && learner_->execution().graph);
    }
    if (!trained) costs_.count(at_);
    on_rank_zero(all_, [&] { write_result(outcome); });
    return outcome.status;
  }

 private:
  void make_learner() {
    learner_.emplace(request_.config, request_.device, all_, micro_batches_,
                     step_graphs(request_.device));
    const auto last =
        folder_.load(kLastCheckpoint, learner_->model(), &learner_->optimizer(), request_.device);
    if (last) {
      at_ = *last;
      if (at_.best_step >= 0 && settings_.evaluation.test) folder_.check_best(at_);
      learner_->set_window(at_);
      host::say(fmt::format("resuming {} at step {}", folder_.text(), at_.step));
    } else if (origin_) {
      start_from(*origin_, learner_->model(), request_.config);
    }
    const std::string setting = measured_setting(request_, *learner_);
    if (!at_.setting.empty() && at_.setting != setting) begin_measures(at_);
    at_.setting = setting;
    at_.sharing = std::max(at_.sharing, request_.sharing);
  }

  void start() {
    check_same_run(all_, folder_, at_.step, learner_->model());
    on_rank_zero(all_, [&] {
      check_kept_place(request_.run, request_.config.attention_options, folder_.begins_anew());
      contract_ = contract_of(request_, folder_, at_.step);
      folder_.begin(run_config_json(request_, data_.manifest(), folder_.identity(), contract_), at_,
                    request_.event_files);
      folder_.keep_file(request_.config.attention_options);
    });
    say_start(request_, data_, *learner_);
  }

  // False when the loss or a gradient stops being finite.
  bool fit() {
    const int64_t before = host::live_bytes(request_.device);
    const std::unique_ptr<BatchFeed> feed = training_feed(request_, data_, at_.step);
    const TrainingOptions& t = settings_.training;
    host::Progress progress("train", t.steps, at_.step);
    costs_.begin(before, copied_bytes_);
    learner_->model().train();
    std::string note;
    if (at_.evaluation_pending && !evaluate_dev()) return false;
    while (at_.step < t.steps) {
      const auto step_begin = Clock::now();
      const Learner::Step step = run_model(all_, [&] { return learner_->step(*feed, at_); });
      ++at_.step;
      const bool evaluates = at_.step == t.steps || at_.step % t.evaluate_every == 0,
                 logs = at_.step % t.log_every == 0 || evaluates,
                 saves = step.stop || at_.step % checkpoint_every(t) == 0;
      // Waits for the device, and so is a part of the steps.
      if (logs || saves) learner_->read_window(at_);
      at_.train_seconds += seconds_since(step_begin);
      // After SIGTERM timeout(1) sends SIGCONT, too, to what is not suspended.
      if (host::take_continued() && !host::stop_requested()) begin_speeds_here();
      if (logs) {
        if (!std::isfinite(at_.window_loss)) return false;
        note = log_window(step.learning_rate);
      }
      if (evaluates) {
        at_.evaluation_pending = true;
        if (!evaluate_dev()) return false;
      } else if (saves) {
        if (!std::isfinite(at_.window_loss)) return false;
        save_last();
      }
      if (step.stop && at_.step < t.steps)
        run_collective(all_, [&] { throw_stopped(at_.step, t.steps); });
      progress.update(at_.step, note);
    }
    progress.finish();
    return true;
  }

  // The steps so far were paused: the speed is that of those to come.
  void begin_speeds_here() {
    costs_.count(at_);
    begin_speeds(at_);
    at_.sharing = std::max(at_.sharing, request_.sharing);
  }

  // Logs the steps since the last such line, and says how they went.
  std::string log_window(double learning_rate) {
    const double count = static_cast<double>(at_.window_count), loss = at_.window_loss / count,
                 accuracy = static_cast<double>(at_.window_correct) / count;
    log({.split = LogSplit::train,
         .loss = loss,
         .accuracy = accuracy,
         .learning_rate = learning_rate});
    at_.window_loss = 0;
    at_.window_correct = at_.window_count = 0;
    learner_->set_window(at_);
    return fmt::format("loss {:.4f} acc {:.1f}%", loss, 100 * accuracy);
  }

  void log(LogLine line) {
    line.step = at_.step;
    line.seconds = at_.seconds + costs_.seconds();
    line.time = time_of_day();
    on_rank_zero(all_, [&] { folder_.log(line); });
  }

  // Evaluates dev at this step and keeps the best; false when its loss is not finite.
  bool evaluate_dev() {
    check_same_run(all_, folder_, at_.step, learner_->model());
    Evaluation dev;
    const RepeatablePass pass(learner_->model(), request_.device);
    costs_.take_peak(at_.peak_bytes);
    evaluating_ = "dev";
    try {
      dev = evaluated("dev", evaluation_split(data_, request_.config, "dev"));
      costs_.take_peak(at_.evaluation_peak_bytes);
    } catch (const std::exception& error) {
      costs_.take_peak(at_.evaluation_peak_bytes);
      const bool asked = dynamic_cast<const host::Interrupted*>(&error) != nullptr;
      // Alone: other processes may not have come to the same error.
      if (!asked && (all_ != nullptr || !is_out_of_memory(error))) throw;
      pass.rewind();
      save_last();
      if (!asked) throw;
      throw_stopped(at_.step, settings_.training.steps);
    }
    evaluating_.clear();
    if (!std::isfinite(dev.loss)) return false;
    const double rate = rate_before(settings_, at_.step);
    log({.loss = dev.loss, .accuracy = dev.accuracy(), .learning_rate = rate});
    at_.evaluation_pending = false;
    const bool better = chooses(settings_, at_.step) && dev.accuracy() > at_.best_accuracy;
    if (better) note_best(at_, dev, settings_.input.length);
    say_evaluation(at_.step, dev, metric_of(settings_.training.objective), better);
    // Killed in between, the run repeats this step, to other bits perhaps (another machine, a GPU's
    // sums): the earlier best stands until the last checkpoint says otherwise.
    if (better) {
      costs_.count(at_);  // a run that starts from it takes over its time
      save(kNextBestCheckpoint, nullptr);
    }
    save_last();
    if (better) on_rank_zero(all_, [&] { folder_.keep_next_best(); });
    return true;
  }

  void save_last() {
    costs_.count(at_);
    save(kLastCheckpoint, &learner_->optimizer());
  }

  void save(const char* checkpoint, const torch::optim::AdamW* optimizer) {
    on_rank_zero(all_, [&] {
      folder_.save(checkpoint, at_, learner_->model(), optimizer, request_.device);
    });
  }

  // The best checkpoint on the test split.
  Evaluation test() {
    evaluating_ = "test";
    Model& model = learner_->model();
    on_rank_zero(all_, [&] { folder_.load_best(model, request_.device, at_.best_step); });
    if (all_ != nullptr) broadcast_state(*all_, model);
    try {
      return evaluated("test", data_.split("test"));
    } catch (const host::Interrupted& error) {
      throw host::Interrupted(std::string(error.what()) + kContinue, error.signal());
    }
  }

  Evaluation evaluated(const std::string& what, const Split& split) {
    return run_model(all_, [&] {
      return evaluate(learner_->model(), split, request_.config, request_.device, what, all_);
    });
  }

  void write_result(const RunOutcome& outcome) {
    folder_.clear();  // where it failed before it began
    Result result = result_of(request_, data_, at_, learner_ ? &*learner_ : nullptr, outcome);
    result.contract = contract_;
    result.training.data_memory_mib = costs_.data_mib();
    folder_.write_result(result, outcome.tested);
    say_end(result);
  }

  int64_t bytes_before_ = host::live_bytes(torch::kCPU);
  PreparedData data_;
  // Of splits that are read otherwise than they are stored; the others are mapped from files.
  int64_t copied_bytes_ = host::live_bytes(torch::kCPU) - bytes_before_;
  std::optional<Origin> origin_;
  TrainRequest request_;
  const Settings& settings_;
  std::string evaluating_;  // the split whose evaluation runs, or empty
  Processes* all_;          // that train together; null = this one alone
  int64_t micro_batches_;
  RunFolder folder_;
  std::optional<Learner> learner_;
  std::optional<ContractRecord> contract_;
  TrainState at_;
  CostMeter costs_{request_.device};
};

}  // namespace

Status train_run(const TrainRequest& request) {
  std::optional<TrainingLoop> loop;
  run_collective(request.processes, [&] { loop.emplace(request); });
  return loop->run();
}

}  // namespace lra
