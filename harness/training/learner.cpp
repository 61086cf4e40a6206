#include "harness/training/learner.h"

#include <algorithm>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/python_host.h"
#include "harness/host/signals.h"
#include "harness/processes/data_parallel.h"
#include "harness/processes/processes.h"

namespace lra {
namespace {

Model make_model(const Config& config) {
  seed_generators(config.seed);
  return Model(task(config.task, config.settings.input.brackets), config);
}

torch::optim::AdamWOptions optimizer_options(const OptimizerOptions& optimizer) {
  return torch::optim::AdamWOptions(optimizer.lr)
      .betas({optimizer.beta1, optimizer.beta2})
      .eps(optimizer.eps)
      .weight_decay(optimizer.weight_decay);
}

Model& on_device(Model& model, torch::Device device) {
  model.to(device);
  return model;
}

}  // namespace

Learner::Learner(const Config& config, torch::Device device, Processes* processes,
                 int64_t micro_batches)
    : config_(config),
      device_(device),
      processes_(processes),
      micro_batches_(micro_batches),
      model_(make_model(config)),
      optimizer_(on_device(model_, device).parameters(),
                 optimizer_options(config.settings.optimizer)) {
  if (processes != nullptr) gradients_ = flat_buffer(model_.parameters());
}

Learner::Step Learner::step(TrainingStream& stream, TrainState& at) {
  const Settings& settings = config_.settings;
  const SchedulePoint point =
      schedule_at(at.step, settings.training.steps, settings.optimizer, settings.schedule);
  set_schedule(point);
  optimizer_.zero_grad();
  bool stop = false;
  if (processes_ == nullptr) {
    add_gradients(stream.next(), at);
  } else {
    stop = share_gradients(stream, at);
  }
  at.window_count += batch();
  run_collective(processes_, [&] {
    clip_gradients();
    optimizer_.step();
  });
  if (processes_ == nullptr) stop = host::stop_requested();
  return {.learning_rate = point.lr, .stop = stop};
}

void Learner::set_schedule(const SchedulePoint& point) {
  for (auto& group : optimizer_.param_groups()) {
    auto& options = static_cast<torch::optim::AdamWOptions&>(group.options());
    options.lr(point.lr).betas({point.beta1, config_.settings.optimizer.beta2});
  }
}

void Learner::add_gradients(const Batch& samples, TrainState& at) {
  const int64_t size = samples.labels.size(0), most = config_.settings.training.micro_batch;
  const int64_t part = most > 0 ? most : size;
  for (int64_t begin = 0; begin < size; begin += part) {
    add_part(samples, {begin, std::min(begin + part, size)}, at.window_loss, at.window_correct);
  }
}

// Gradients of this process's share of the batch, then the sums over all processes. True where any
// of them has been asked to stop.
bool Learner::share_gradients(TrainingStream& stream, TrainState& at) {
  double loss = 0;
  int64_t correct = 0;
  processes_->run_collective([&] {
    const Batch samples = stream.next();
    for_each_micro_batch(share_of(batch(), processes_->rank(), processes_->size()), micro_batches_,
                         config_.seed, at.step,
                         [&](Range part) { add_part(samples, part, loss, correct); });
  });
  const torch::Tensor sums = torch::tensor(
      {loss, static_cast<double>(correct), host::stop_requested() ? 1.0 : 0.0}, torch::kDouble);
  processes_->sum(sums);
  at.window_loss += sums[0].item<double>();
  at.window_correct += sums[1].item<int64_t>();
  sum_gradients(*processes_, model_.parameters(), gradients_);
  return sums[2].item<double>() > 0;
}

// Adds the gradients of some of the samples, as parts of the mean over the whole batch.
void Learner::add_part(const Batch& samples, Range part, double& loss_sum, int64_t& correct) {
  const auto piece = [&](const torch::Tensor& t) {
    return t.slice(0, part.begin, part.end).to(device_);
  };
  const auto labels = piece(samples.labels);
  torch::Tensor logits;  // [part,classes]
  {
    const ops::AutocastScope autocast(device_, config_.dtype);
    logits = model_.forward(piece(samples.tokens), piece(samples.mask));
  }
  logits = logits.to(torch::kFloat32);
  const auto loss = torch::nn::functional::cross_entropy(
      logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  run_backward(loss / static_cast<double>(batch()));
  loss_sum += loss.item<double>();
  correct += (logits.detach().argmax(-1) == labels).sum().item<int64_t>();
}

void Learner::clip_gradients() {
  const OptimizerOptions& optimizer = config_.settings.optimizer;
  if (optimizer.clip_value > 0)
    torch::nn::utils::clip_grad_value_(model_.parameters(), optimizer.clip_value);
  if (optimizer.clip_norm > 0)
    torch::nn::utils::clip_grad_norm_(model_.parameters(), optimizer.clip_norm);
}

}  // namespace lra
