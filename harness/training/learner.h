// A model and its optimizer, and one step of training.
#pragma once

#include <optional>
#include <vector>

#include "attention_variants/ops/adamw.h"
#include "attention_variants/torch.h"
#include "harness/steps/batch_feed.h"
#include "harness/steps/execution.h"
#include "harness/steps/graphed_steps.h"
#include "harness/steps/schedule.h"
#include "harness/steps/step_sums.h"
#include "harness/steps/trained_groups.h"
#include "harness/training/checkpoint.h"
#include "lra/config/protocol.h"
#include "lra/data/loader.h"
#include "lra/model/model.h"

namespace lra {

class Processes;

class Learner {
 public:
  /// Makes the model from the configuration's seed. `processes`, where not null, train together:
  /// each takes its share of a batch in `micro_batches` parts (micro_batch_count()). One alone
  /// makes parts of `training.micro_batch` samples. `graphs`, where not null, makes what records
  /// the steps of one process that can be recorded: execution() says whether they are.
  Learner(const Config& config, torch::Device device, Processes* processes, int64_t micro_batches,
          const StepGraphMaker& graphs = nullptr);

  struct Step {
    double learning_rate = 0;
    bool stop = false;  // some process has been asked to stop
  };
  /// One optimizer step on the feed's next batch, as step `at.step` of the run. One process waits
  /// for no device: loss and correct predictions are added to the window on it.
  Step step(BatchFeed& feed, TrainState& at);

  /// The window of `at`, losses and correct predictions of the steps since the last log line,
  /// becomes the one on the device, and the other way around.
  void read_window(TrainState& at) const { sums_.read(at.window_loss, at.window_correct); }
  void set_window(const TrainState& at) { sums_.set(at.window_loss, at.window_correct); }

  /// How steps run, and why.
  const StepExecution& execution() const { return execution_; }

  Model& model() { return model_; }
  const Model& model() const { return model_; }
  torch::optim::AdamW& optimizer() { return optimizer_; }
  /// What the optimizer goes over.
  const std::vector<TrainedGroup>& groups() const { return groups_; }

 private:
  int64_t batch() const { return config_.settings.training.batch; }
  void count_labels(const torch::Tensor& labels);
  void set_schedule(const SchedulePoint& point);
  void make_graphs(const StepGraphMaker& graphs);
  void compute_gradients(const Batch& samples);
  bool share_gradients(BatchFeed& feed, TrainState& at);
  void add_part(const Batch& samples, Range part, StepSums& sums);
  void clip_gradients();

  const Config& config_;
  torch::Device device_;
  Processes* processes_;   // null = this one alone
  int64_t micro_batches_;  // of this process's share of a batch
  int64_t labels_;         // of the step's batch, over all processes: what its loss is the mean of
  Model model_;
  std::vector<TrainedGroup> groups_;
  ops::FusedAdamW optimizer_;
  torch::Tensor gradients_;  // of all parameters, flat; where there are several processes
  StepSums sums_;            // the window
  StepExecution execution_;
  std::optional<GraphedSteps> graphs_;
};

}  // namespace lra
