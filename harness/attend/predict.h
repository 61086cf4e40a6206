// A run's model on samples that somebody wrote: what `lra predict` does.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/training/open_run.h"

namespace lra {

struct PredictedClass {
  int64_t predicted = 0;  // a class
  float confidence = 0;   // its probability
};

struct PredictedLines {
  std::vector<PredictedClass> lines;
  int64_t cut = 0;  // of the lines, how many are longer than the run reads
};

/// What the run's model says of samples, one a line as sample_of_line() has them, which are read,
/// cut, padded and hidden as by the run; the model is of that device, and random numbers of
/// attentions that draw in evaluation are those of `lra evaluate`. Throws Error that names the
/// line, from 1, where one is no sample of the task, behind `from` where that is given; UsageError
/// where the run's examples are no samples. Stops with Interrupted after Ctrl-C.
PredictedLines predict(const TrainedModel& run, std::span<const std::string> lines,
                       torch::Device device, const std::string& from = "");

/// "index,predicted,confidence" lines with a header; the first index is 0.
std::string lines_csv(const PredictedLines& predictions);

}  // namespace lra
