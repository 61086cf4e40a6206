#include "harness/training/learner.h"

#include <algorithm>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/cross_entropy.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/python_host.h"
#include "harness/host/signals.h"
#include "harness/processes/data_parallel.h"
#include "harness/processes/processes.h"
#include "harness/steps/clipping.h"
#include "lra/model/labels.h"

namespace lra {
namespace {

Model make_model(const Config& config) {
  seed_generators(config.seed);
  return Model(task(config.task, config.settings.input.reading()), config);
}

// Each process would take the statistics of its own share, and the mean over labels at positions
// needs their number in all shares of a batch.
void check_shared(const Config& config, const Processes* processes) {
  if (processes == nullptr || processes->size() == 1) return;
  const auto refuse = [&](const std::string& what) {
    throw UsageError(what + ": train with one process, not " + std::to_string(processes->size()));
  };
  if (config.settings.model.norm_kind == NormKind::batch)
    refuse("model.norm_kind batch takes its statistics of a whole batch");
  const std::string coupling = batch_coupling(config.attention.name, config.attention_options);
  if (!coupling.empty())
    refuse("attention " + config.attention.name + " with " + coupling +
           " computes with the whole batch");
  // Each process counts its own passes, of which evaluations have different numbers.
  const std::string drawing = drawing_in_passes(config.attention.name, config.attention_options);
  if (!drawing.empty())
    refuse("attention " + config.attention.name + " with " + drawing + " draws anew in every pass");
  if (predicts_tokens(config.settings.training.objective))
    refuse("the labels of training.objective " + to_string(config.settings.training.objective) +
           " stand at positions");
  if (task(config.task).position_labels)
    refuse("the labels of " + config.task + " stand at positions, which one process trains on");
}

Model& on_device(Model& model, torch::Device device) {
  model.to(device);
  return model;
}

}  // namespace

Learner::Learner(const Config& config, torch::Device device, Processes* processes,
                 int64_t micro_batches, const StepGraphMaker& graphs)
    : config_(config),
      device_(device),
      processes_(processes),
      micro_batches_(micro_batches),
      labels_(config.settings.training.batch),
      model_(make_model(config)),
      groups_(trained_groups(on_device(model_, device), config.settings.optimizer)),
      optimizer_(make_optimizer(groups_, config.settings.optimizer)),
      sums_(device),
      execution_(step_execution(config, model_, device,
                                processes == nullptr ? 1 : processes->size(), graphs != nullptr)) {
  check_shared(config, processes);
  if (processes != nullptr) gradients_ = flat_buffer(model_.parameters());
  if (execution_.graph) make_graphs(graphs);
}

void Learner::make_graphs(const StepGraphMaker& graphs) {
  StepWork work;
  work.run = [this](const Batch& samples) {
    compute_gradients(samples);
    optimizer_.step();
  };
  if (execution_.whole()) {
    optimizer_.read_on_device();
    work.record = [this](const Batch& samples) {
      compute_gradients(samples);
      optimizer_.update();
      return std::vector<torch::Tensor>();
    };
    work.before_replay = [this] { optimizer_.advance(); };
    work.after_replay = [](const auto&) {};
  } else {
    work.record = [this](const Batch& samples) {
      compute_gradients(samples);
      std::vector<torch::Tensor> gradients;
      for (const torch::Tensor& parameter : model_.parameters())
        gradients.push_back(parameter.grad());
      return gradients;
    };
    work.before_replay = [] {};
    work.after_replay = [this](const std::vector<torch::Tensor>& gradients) {
      const std::vector<torch::Tensor> parameters = model_.parameters();
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = gradients[i];
      optimizer_.step();
    };
  }
  graphs_.emplace(device_, graphs, std::move(work));
}

Learner::Step Learner::step(BatchFeed& feed, TrainState& at) {
  const Settings& settings = config_.settings;
  const SchedulePoint point =
      schedule_at(at.step, settings.training.steps, settings.optimizer, settings.schedule);
  set_schedule(point);
  bool stop = false;
  if (graphs_) {
    graphs_->run(feed.next());
  } else if (processes_ == nullptr) {
    compute_gradients(feed.next());
    optimizer_.step();
  } else {
    stop = share_gradients(feed, at);
    processes_->run_collective([&] {
      clip_gradients();
      optimizer_.step();
    });
  }
  at.window_count += labels_;
  if (processes_ == nullptr) stop = host::stop_requested();
  return {.learning_rate = point.lr, .stop = stop};
}

void Learner::set_schedule(const SchedulePoint& point) {
  const OptimizerOptions& optimizer = config_.settings.optimizer;
  for (size_t i = 0; i < groups_.size(); ++i) {
    auto& options =
        static_cast<torch::optim::AdamWOptions&>(optimizer_.param_groups()[i].options());
    const double own = groups_[i].lr;
    options.lr(own == optimizer.lr ? point.lr : point.lr * (own / optimizer.lr))
        .betas({point.beta1, optimizer.beta2});
  }
}

void Learner::count_labels(const torch::Tensor& labels) {
  if (labels.dim() > 1) labels_ = std::max<int64_t>(labels.ge(0).sum().item<int64_t>(), 1);
}

// Those of one process alone, clipped.
void Learner::compute_gradients(const Batch& samples) {
  optimizer_.zero_grad();
  count_labels(samples.labels);
  const int64_t size = samples.labels.size(0), most = config_.settings.training.micro_batch;
  const int64_t part = most > 0 ? most : size;
  for (int64_t begin = 0; begin < size; begin += part)
    add_part(samples, {begin, std::min(begin + part, size)}, sums_);
  clip_gradients();
}

// Gradients of this process's share of the batch, then the sums over all processes. True where any
// of them has been asked to stop.
bool Learner::share_gradients(BatchFeed& feed, TrainState& at) {
  optimizer_.zero_grad();
  StepSums own(device_);
  processes_->run_collective([&] {
    const Batch samples = feed.next();
    count_labels(samples.labels);
    for_each_micro_batch(share_of(batch(), processes_->rank(), processes_->size()), micro_batches_,
                         config_.seed, at.step, [&](Range part) { add_part(samples, part, own); });
  });
  double loss = 0;
  int64_t correct = 0;
  own.read(loss, correct);
  const torch::Tensor sums = torch::tensor(
      {loss, static_cast<double>(correct), host::stop_requested() ? 1.0 : 0.0}, torch::kDouble);
  processes_->sum(sums);
  sums_.add(sums.narrow(0, 0, 2).to(device_));
  sum_gradients(*processes_, model_.parameters(), gradients_);
  return sums[2].item<double>() > 0;
}

// Adds the gradients of some of the samples, as parts of the mean over the whole batch's labels.
void Learner::add_part(const Batch& samples, Range part, StepSums& sums) {
  const auto piece = [&](const torch::Tensor& t) { return t.slice(0, part.begin, part.end); };
  const auto given = piece(samples.labels), mask = piece(samples.mask);
  const auto places = label_places(given), labels = labels_at(given, places);
  const ops::FullMask full(samples.full ? mask : torch::Tensor());
  torch::Tensor logits;  // [labels of the part,classes]
  {
    const ops::AutocastScope autocast(device_, config_.dtype);
    logits = model_.forward(piece(samples.tokens), mask, places);
  }
  logits = logits.to(torch::kFloat32);
  const auto loss = ops::cross_entropy(config_.settings.kernels, logits, labels, labels_);
  run_backward(logits, loss.gradient);
  sums.add(loss.sums);
}

void Learner::clip_gradients() {
  const OptimizerOptions& optimizer = config_.settings.optimizer;
  if (optimizer.clip_value > 0) clip_gradient_values(model_.parameters(), optimizer.clip_value);
  if (optimizer.clip_norm > 0) clip_gradient_norm(model_.parameters(), optimizer.clip_norm);
}

}  // namespace lra
