// A model and its optimizer, and one step of training.
#pragma once

#include <vector>

#include "attention_variants/ops/adamw.h"
#include "attention_variants/torch.h"
#include "harness/training/checkpoint.h"
#include "harness/training/schedule.h"
#include "lra/config/protocol.h"
#include "lra/data/loader.h"
#include "lra/model/model.h"

namespace lra {

class Processes;

class Learner {
 public:
  /// Makes the model from the configuration's seed. `processes`, where not null, train together:
  /// each takes its share of a batch in `micro_batches` parts (micro_batch_count()). One alone
  /// makes parts of `training.micro_batch` samples.
  Learner(const Config& config, torch::Device device, Processes* processes, int64_t micro_batches);

  struct Step {
    double learning_rate = 0;
    bool stop = false;  // some process has been asked to stop
  };
  /// One optimizer step on the stream's next batch, as step `at.step` of the run; its loss and
  /// correct predictions are added to the window of `at`.
  Step step(TrainingStream& stream, TrainState& at);

  Model& model() { return model_; }
  const Model& model() const { return model_; }
  torch::optim::AdamW& optimizer() { return optimizer_; }

 private:
  int64_t batch() const { return config_.settings.training.batch; }
  void set_schedule(const SchedulePoint& point);
  void add_gradients(const Batch& samples, TrainState& at);
  bool share_gradients(TrainingStream& stream, TrainState& at);
  void add_part(const Batch& samples, Range part, double& loss_sum, int64_t& correct);
  void clip_gradients();

  const Config& config_;
  torch::Device device_;
  Processes* processes_;   // null = this one alone
  int64_t micro_batches_;  // of this process's share of a batch
  Model model_;
  ops::FusedAdamW optimizer_;
  torch::Tensor gradients_;  // of all parameters, flat; where there are several processes
};

}  // namespace lra
