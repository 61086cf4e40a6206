// How the parts of a run become its record.
#pragma once

#include <optional>
#include <string>

#include "harness/training/checkpoint.h"
#include "harness/training/evaluation.h"
#include "harness/training/learner.h"
#include "harness/training/train.h"
#include "results/records/result.h"

namespace lra {

/// How a run ended.
struct RunOutcome {
  Status status = Status::ok;
  std::string reason;
  std::optional<Evaluation> tested;  // the best checkpoint on the test split, where that was done
};

/// DataRecord::kind() of prepared data.
std::string data_kind(const Manifest& manifest);

/// The record of an evaluation: counts, interval (Wilson's, or that of clusters), accuracy in eight
/// classes of length up to `length`.
Accuracy accuracy_of(const Evaluation& evaluation, int64_t length);

/// What a run's speeds and memory depend on besides its configuration, in words: machine, threads,
/// processes, how steps are launched, kernels.
std::string measured_setting(const TrainRequest& request, const Learner& learner);

/// Begins the speeds of `at` anew, of a run that was paused: its memory is what it was, and steps
/// that are replayed on a GPU show none.
void begin_speeds(TrainState& at);

/// Begins the measures of `at` anew, of a run that goes on elsewhere.
void begin_measures(TrainState& at);

/// Speeds up to `at` since its measures began, and the peak of memory where LibTorch can tell it.
TrainingCost training_cost(const TrainRequest& request, const TrainState& at);

/// A record with what is known before training: task, attention, protocol, seed, data, machine,
/// software.
Result result_of(const TrainRequest& request, const PreparedData& data);

/// The record of a run that ended at `at`; `learner` is null where it could not be made.
Result result_of(const TrainRequest& request, const PreparedData& data, const TrainState& at,
                 const Learner* learner, const RunOutcome& outcome);

}  // namespace lra
