#include "harness/training/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>

#include "attention_variants/base/files.h"
#include "attention_variants/ops/adamw.h"
#include "attention_variants/ops/autocast.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/processes/processes.h"
#include "harness/training/checkpoint.h"
#include "harness/training/evaluation.h"
#include "harness/training/run_files.h"
#include "harness/training/schedule.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One run from its configuration to its result.
class Run {
 public:
  explicit Run(const TrainRequest& request)
      : request_(request),
        settings_(request.config.settings),
        data_(open_data(request.data, request.config.task, /*check_hashes=*/true)),
        identity_(run_identity(request.config, data_.manifest())),
        all_(request.processes) {
    if (all_ != nullptr)
      parts_ = micro_batch_count(batch(), settings_.training.micro_batch, all_->size());
    if (is_rank_zero(all_)) {
      open_folder(request);
      lock_.emplace(request.run);
    }
    check_folder();
    check_splits();
  }

  Status go() {
    if (is_finished()) {
      say(request_.run.string() + " is finished already; its result.json stands");
      return Status::ok;
    }
    if (request_.device.is_cpu()) {
      const int64_t sharers = all_ == nullptr ? 1 : colocated_ranks(*all_).on_host;
      const int64_t limit =
          request_.memory_limit > 0 ? request_.memory_limit : default_memory_limit() / sharers;
      set_cpu_memory_limit(live_bytes(request_.device) + limit);
    }
    Status status = Status::ok;
    std::string reason;
    try {
      run_collective(all_, [&] {
        make_model();
        load_last();
      });
      start();
      if (!fit()) {
        status = Status::diverged;
        reason = fmt::format("the loss or a gradient was not finite by step {}", at_.step);
      }
    } catch (const Unsupported& error) {
      status = Status::unsupported;
      reason = error.what();
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      status = Status::oom;
      reason = fmt::format(
          "memory ran out at step {}: batch {}, length {}; training.micro_batch makes parts",
          at_.step, settings_.training.batch, settings_.input.length);
      if (all_ != nullptr) reason += fmt::format(" ({})", first_line(error));
    }
    finish(status, reason);
    return status;
  }

 private:
  static void open_folder(const TrainRequest& request) {
    std::error_code error;
    fs::create_directories(request.run, error);
    if (error)
      throw Error("cannot create the run folder " + request.run.string() + ": " + error.message());
  }

  int64_t batch() const { return settings_.training.batch; }

  // As the first process sees it.
  bool is_finished() const {
    bool finished = false;
    run_collective(all_, [&] {
      const fs::path result = request_.run / kResultFile;
      finished = fs::exists(result) && read_result(result).status == Status::ok;
    });
    return all_ == nullptr ? finished : all_->gather(finished ? 1 : 0).front() != 0;
  }

  // A folder with a run in it is continued only when asked, and only by the same configuration.
  void check_folder() const {
    const fs::path path = request_.run / kConfigFile;
    if (!fs::exists(path)) return;
    const std::string run = request_.run.string();
    if (request_.resume == Resume::no) {
      throw Error(
          run + " holds a run already; continue it with --resume, or choose another --run folder");
    }
    const json saved = read_json(path);
    if (!saved.is_object() || !saved.contains("identity")) {
      throw Error(path.string() +
                  " is not the configuration of a run; remove it, or choose another --run folder");
    }
    const std::string different = differences_text(config_identity(saved["identity"]), identity_);
    if (different.empty()) return;
    throw Error(
        fmt::format("{} holds a run of another configuration ({}); use the same options or another "
                    "--run folder",
                    run, different));
  }

  // What would leave nothing to train on or to evaluate.
  void check_splits() const {
    const EvaluationOptions& e = settings_.evaluation;
    for (const char* name : kSplits) {
      const int64_t size = evaluation_split(data_, request_.config, name).size(),
                    least = e.drop_last && std::string(name) != "train" ? e.batch : 1;
      if (size < least) {
        throw Error(fmt::format(
            "the {} split has {} samples, fewer than {}{}", name, size, least,
            least > 1 ? ", an evaluation batch: with evaluation.drop_last nothing is left" : ""));
      }
    }
  }

  void make_model() {
    torch::manual_seed(request_.config.seed);
    model_ = std::make_unique<Model>(task(request_.config.task), request_.config);
    model_->to(request_.device);
    optimizer_ = std::make_unique<ops::FusedAdamW>(
        model_->parameters(), torch::optim::AdamWOptions(settings_.optimizer.lr)
                                  .betas({settings_.optimizer.beta1, settings_.optimizer.beta2})
                                  .eps(settings_.optimizer.eps)
                                  .weight_decay(settings_.optimizer.weight_decay));
    if (all_ != nullptr) gradients_ = flat_buffer(model_->parameters());
  }

  void load_last() {
    const fs::path last = request_.run / kLastCheckpoint;
    if (!fs::exists(last)) return;
    at_ = load_checkpoint(last, identity_, *model_, optimizer_.get(), request_.device);
    say(fmt::format("resuming {} at step {}", request_.run.string(), at_.step));
  }

  void start() {
    check_same_model();
    on_rank_zero(all_, [&] {
      write_json(request_.run / kConfigFile, config_json());
      cut_metrics(request_.run / kMetricsFile, at_.step);
      metrics_.open(request_.run / kMetricsFile, std::ios::app);
      if (!metrics_) throw Error("cannot append to " + (request_.run / kMetricsFile).string());
    });
    say(fmt::format(
        "{} · {} · {} · seed {} · {} parameters · {} steps of {} · {} train, {} dev, {} test{}",
        request_.config.task, request_.config.attention.text(), request_.config.protocol,
        request_.config.seed, model_->parameter_count(), settings_.training.steps,
        settings_.training.batch, training_size(),
        evaluation_split(data_, request_.config, "dev").size(), data_.split("test").size(),
        data_.manifest().synthetic ? " · SYNTHETIC data" : ""));
    if (all_ != nullptr) {
      const Range largest = share_of(batch(), 0, all_->size());
      say(fmt::format("{} processes by {}, {} threads each; up to {} samples of a batch each",
                      all_->size(), all_->engine(), request_.threads, largest.end));
    }
    if (settings_.evaluation.dev != "dev") {
      say("evaluation.dev is \"" + settings_.evaluation.dev +
          "\": that split chooses the checkpoint, and dev is trained on");
    }
  }

  int64_t training_size() const {
    int64_t size = 0;
    for (const Split& split : training_splits(data_, request_.config)) size += split.size();
    return size;
  }

  json config_json() const {
    json value = request_.config.to_json();
    value["identity"] = identity_;
    value["data"] = {{"directory", fs::absolute(request_.data).string()},
                     {"fingerprint", data_.manifest().fingerprint()}};
    value["device"] = request_.device.str();
    value["threads"] = request_.threads;
    if (all_ != nullptr) {
      value["processes"] = all_->size();
      value["engine"] = all_->engine();
    }
    return value;
  }

  // Parameters, buffers and what else decides the next step are the same bits in all processes.
  void check_same_model() const {
    if (all_ == nullptr) return;
    check_same(*all_,
               fmt::format("{} {} {}", at_.step, sha256(identity_.dump()), state_sha256(*model_)),
               fmt::format("the run at step {}", at_.step));
  }

  // False when the loss or a gradient stops being finite.
  bool fit() {
    LoaderOptions options = loader_options(request_.config);
    options.batch = batch();
    if (all_ != nullptr) options.samples = share_of(batch(), all_->rank(), all_->size());
    options.shuffle = true;
    TrainingStream stream(training_splits(data_, request_.config), options, at_.step);
    const TrainingOptions& t = settings_.training;
    const int64_t checkpoint_every = t.checkpoint_every > 0 ? t.checkpoint_every : t.evaluate_every;
    reset_peak_bytes(request_.device);
    Progress progress("train", t.steps, at_.step);
    begin_ = Clock::now();
    model_->train();
    std::string note;
    if (at_.evaluation_pending && !evaluate_dev()) return false;
    while (at_.step < t.steps) {
      const auto step_begin = Clock::now();
      const SchedulePoint point = step(stream);
      ++at_.step;
      at_.train_seconds += seconds_since(step_begin);
      const bool evaluates = at_.step == t.steps || at_.step % t.evaluate_every == 0;
      if (at_.step % t.log_every == 0 || evaluates) {
        if (!std::isfinite(at_.window_loss)) return false;
        const double count = static_cast<double>(at_.window_count), loss = at_.window_loss / count;
        note = fmt::format("loss {:.4f} acc {:.1f}%", loss,
                           100.0 * static_cast<double>(at_.window_correct) / count);
        log("train", loss, at_.window_correct, at_.window_count, point.lr);
        at_.window_loss = 0;
        at_.window_correct = at_.window_count = 0;
      }
      const bool stop = all_ == nullptr ? stop_requested().load() : any_stops_;
      if (evaluates) {
        at_.evaluation_pending = true;
        if (!evaluate_dev()) return false;
      } else if (stop || at_.step % checkpoint_every == 0) {
        if (!std::isfinite(at_.window_loss)) return false;
        save_last();
      }
      if (stop && at_.step < t.steps) run_collective(all_, [&] { throw Interrupted(stopped()); });
      progress.update(at_.step, note);
    }
    progress.finish();
    return true;
  }

  std::string stopped() const {
    return fmt::format("stopped at step {} of {}; continue with --resume", at_.step,
                       settings_.training.steps);
  }

  // Evaluates dev at this step and keeps the best; false when its loss is not finite.
  bool evaluate_dev() {
    check_same_model();
    Evaluation dev;
    try {
      dev = evaluate(*model_, evaluation_split(data_, request_.config, "dev"), request_.config,
                     request_.device, "dev", all_);
    } catch (const Interrupted&) {
      save_last();
      throw Interrupted(stopped());
    }
    if (!std::isfinite(dev.loss)) return false;
    log("dev", dev.loss, dev.correct, dev.count,
        schedule_at(at_.step - 1, settings_.training.steps, settings_.optimizer, settings_.schedule)
            .lr);
    at_.evaluation_pending = false;
    const bool better = chooses() && dev.accuracy() > at_.best_accuracy;
    if (better) {
      at_.best_accuracy = dev.accuracy();
      at_.best_step = at_.step;
      at_.best_dev = accuracy_json(dev, settings_.input.length);
    }
    say(fmt::format("step {}: dev accuracy {:.2f}% ({}/{}), loss {:.4f}{}", at_.step,
                    100 * dev.accuracy(), dev.correct, dev.count, dev.loss,
                    better ? ", the best so far" : ""));
    // The best goes first: killed in between, the run repeats this step and writes the same tensors
    // again.
    if (better) save(kBestCheckpoint, nullptr);
    save_last();
    return true;
  }

  // Whether an evaluation at this step may choose the checkpoint that is tested.
  bool chooses() const {
    const int64_t steps = settings_.training.steps;
    return at_.step == steps || static_cast<double>(at_.step) >
                                    settings_.evaluation.select_after * static_cast<double>(steps);
  }

  // The clock and the peak up to now.
  void count_costs() {
    at_.seconds += seconds_since(begin_);
    begin_ = Clock::now();
    at_.peak_bytes = std::max(at_.peak_bytes, peak_bytes(request_.device));
  }

  void save_last() {
    count_costs();
    save(kLastCheckpoint, optimizer_.get());
  }

  // One optimiser step; returns what it ran with.
  SchedulePoint step(TrainingStream& stream) {
    const SchedulePoint point =
        schedule_at(at_.step, settings_.training.steps, settings_.optimizer, settings_.schedule);
    for (auto& group : optimizer_->param_groups()) {
      auto& options = static_cast<torch::optim::AdamWOptions&>(group.options());
      options.lr(point.lr).betas({point.beta1, settings_.optimizer.beta2});
    }
    optimizer_->zero_grad();
    if (all_ == nullptr) {
      add_gradients(stream.next());
    } else {
      share_gradients(stream);
    }
    at_.window_count += batch();
    run_collective(all_, [&] {
      if (settings_.optimizer.clip_value > 0) {
        torch::nn::utils::clip_grad_value_(model_->parameters(), settings_.optimizer.clip_value);
      }
      if (settings_.optimizer.clip_norm > 0) {
        torch::nn::utils::clip_grad_norm_(model_->parameters(), settings_.optimizer.clip_norm);
      }
      optimizer_->step();
    });
    return point;
  }

  void add_gradients(const Batch& samples) {
    const int64_t size = samples.labels.size(0);
    const int64_t part = settings_.training.micro_batch > 0 ? settings_.training.micro_batch : size;
    for (int64_t begin = 0; begin < size; begin += part) {
      add_part(samples, {begin, std::min(begin + part, size)}, at_.window_loss, at_.window_correct);
    }
  }

  // Gradients of this process's share of the batch, then the sums over all processes.
  void share_gradients(TrainingStream& stream) {
    double loss = 0;
    int64_t correct = 0;
    all_->run_collective([&] {
      const Batch samples = stream.next();
      for_each_micro_batch(share_of(batch(), all_->rank(), all_->size()), parts_,
                           request_.config.seed, at_.step,
                           [&](Range part) { add_part(samples, part, loss, correct); });
    });
    const torch::Tensor sums = torch::tensor(
        {loss, static_cast<double>(correct), stop_requested() ? 1.0 : 0.0}, torch::kDouble);
    all_->sum(sums);
    at_.window_loss += sums[0].item<double>();
    at_.window_correct += sums[1].item<int64_t>();
    any_stops_ = sums[2].item<double>() > 0;
    sum_gradients(*all_, model_->parameters(), gradients_);
  }

  // Adds the gradients of some of the samples, as parts of the mean over the whole batch.
  void add_part(const Batch& samples, Range part, double& loss_sum, int64_t& correct) {
    const auto piece = [&](const torch::Tensor& t) {
      return t.slice(0, part.begin, part.end).to(request_.device);
    };
    const auto labels = piece(samples.labels);
    torch::Tensor logits;  // [part,classes]
    {
      const ops::AutocastScope autocast(request_.device, request_.config.dtype);
      logits = model_->forward(piece(samples.tokens), piece(samples.mask));
    }
    logits = logits.to(torch::kFloat32);
    const auto loss = torch::nn::functional::cross_entropy(
        logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    (loss / static_cast<double>(batch())).backward();
    loss_sum += loss.item<double>();
    correct += (logits.detach().argmax(-1) == labels).sum().item<int64_t>();
  }

  void log(const char* split, double loss, int64_t correct, int64_t count, double lr) {
    const json line = {{"step", at_.step},
                       {"split", split},
                       {"loss", loss},
                       {"accuracy", static_cast<double>(correct) / static_cast<double>(count)},
                       {"learning_rate", lr},
                       {"seconds", at_.seconds + seconds_since(begin_)}};
    on_rank_zero(all_, [&] {
      metrics_ << line.dump() << '\n' << std::flush;
      if (!metrics_)
        throw Error("cannot write to " + (request_.run / kMetricsFile).string() +
                    "; is the disk full?");
    });
  }

  void save(const char* name, const torch::optim::AdamW* optimizer) {
    on_rank_zero(all_, [&] {
      save_checkpoint(request_.run / name, identity_, at_, *model_, optimizer, request_.device);
    });
  }

  // The best checkpoint on the test split.
  Evaluation test() {
    on_rank_zero(all_, [&] {
      load_checkpoint(request_.run / kBestCheckpoint, identity_, *model_, nullptr, request_.device);
    });
    if (all_ != nullptr) broadcast_state(*all_, *model_);
    return evaluate(*model_, data_.split("test"), request_.config, request_.device, "test", all_);
  }

  // Tests the best checkpoint once and writes the result.
  void finish(Status status, const std::string& reason) {
    if (status != Status::ok) count_costs();
    std::optional<Evaluation> tested;
    if (status == Status::ok) tested = test();
    on_rank_zero(all_, [&] { write_result(status, reason, tested); });
  }

  void write_result(Status status, const std::string& reason,
                    const std::optional<Evaluation>& tested) const {
    Result result = result_of(request_, data_.manifest(), data_.split("test"));
    result.status = status;
    result.reason = reason;
    result.steps = at_.step;
    if (model_ != nullptr) {
      result.attention.options = model_->attention_options();
      result.parameters = model_->parameter_count();
    }
    result.config = request_.config.to_json();
    const double steps = static_cast<double>(at_.step);
    if (at_.train_seconds > 0) {
      const double tokens =
          static_cast<double>(batch() * settings_.input.length * task(request_.config.task).inputs);
      result.training = {.seconds = at_.seconds,
                         .steps_per_second = steps / at_.train_seconds,
                         .tokens_per_second = steps * tokens / at_.train_seconds,
                         .peak_memory_mib = static_cast<double>(at_.peak_bytes) / kMiB};
    }
    if (request_.threads > 0) result.training.threads = request_.threads;
    if (all_ != nullptr) {
      result.training.processes = all_->size();
      result.training.engine = all_->engine();
    }
    if (at_.best_step >= 0) {
      result.best_step = at_.best_step;
      result.dev = accuracy_record(at_.best_dev);
    }
    if (tested) {
      result.test = accuracy_record(accuracy_json(*tested, settings_.input.length));
      write_file(request_.run / kPredictionsFile, tested->predictions_csv());
    }
    write_json(request_.run / kResultFile, make_result(result));
    if (tested) {
      say(fmt::format(
          "test accuracy {:.2f}% (95% interval {:.2f} to {:.2f}) with the checkpoint of step {} · "
          "{:.3g} steps/s",
          100 * result.test->accuracy, 100 * result.test->ci95.low, 100 * result.test->ci95.high,
          at_.best_step, result.training.steps_per_second.value_or(0)));
    } else {
      say(text(status) + ": " + reason);
    }
  }

  const TrainRequest& request_;
  const Settings& settings_;
  PreparedData data_;
  std::optional<FolderLock> lock_;  // the first process's
  json identity_;
  Processes* all_;           // that train together; null = this one alone
  int64_t parts_ = 1;        // of this process's share of a batch
  torch::Tensor gradients_;  // of all parameters; where there are several processes
  bool any_stops_ = false;   // after the last step, of any process
  std::unique_ptr<Model> model_;
  std::unique_ptr<ops::FusedAdamW> optimizer_;
  TrainState at_;
  std::ofstream metrics_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

Status train(const TrainRequest& request) {
  std::optional<Run> run;
  run_collective(request.processes, [&] { run.emplace(request); });
  return run->go();
}

}  // namespace lra
