// What a run says on the terminal.
#pragma once

#include <string>

#include "harness/training/evaluation.h"
#include "harness/training/learner.h"
#include "harness/training/train.h"
#include "lra/data/prepared.h"
#include "results/records/result.h"

namespace lra {

void say_start(const TrainRequest& request, const PreparedData& data, const Learner& learner);

/// Of a run that its pretraining comes before: how long both are, and which settings that somebody
/// gave the run the pretraining has values of its own for.
void say_pretraining(const Config& first, const Config& run);

/// What a run that starts now took from another.
void say_origin(const PretrainingRecord& origin);

/// `metric`: as in Result.
void say_evaluation(int64_t step, const Evaluation& dev, const std::string& metric, bool better);

void say_end(const Result& result);

/// Why a run is "oom": in the evaluation of that split, or where it is empty at a training step.
/// `recorded`: steps are recorded for a GPU, and each recording keeps the memory of its step.
std::string out_of_memory(const Settings& settings, int64_t step, const std::string& evaluated,
                          bool recorded);

}  // namespace lra
