// Full-set evaluation, weighted by examples.
#pragma once

#include <string>
#include <vector>

#include "attention_variants/torch.h"
#include "harness/processes/processes.h"
#include "lra/data/loader.h"
#include "lra/model/model.h"
#include "results/statistics/statistics.h"

namespace lra {

/// One pass over a split. An example is a sample, or a labelled position of one, or a token of one
/// that was to be predicted.
struct Evaluation {
  double loss = 0;  // mean cross-entropy over examples
  int64_t correct = 0, count = 0;
  // An entry an example; lengths in tokens of its sample, whatever the mask.
  std::vector<int64_t> labels, predicted, lengths;
  std::vector<float> confidence;  // the probability of what was predicted
  // Where labels stand at positions: the example's row in the split, and its position there.
  std::vector<int64_t> samples, positions;
  // Where labels are tokens, of which there are too many: an entry a sample, as of `lengths` then,
  // and none of an example.
  std::vector<stats::Cluster> tokens;

  double accuracy() const {
    return count == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(count);
  }
  /// Of each sample, how many of its positions there are and are right; empty where an example is a
  /// sample.
  std::vector<stats::Cluster> clusters() const;
  /// "index,label,predicted,confidence" lines with a header, and ",sample,position" at their end
  /// where labels stand at positions.
  std::string predictions_csv() const;
};

/// Evaluates without dropout; stops with Interrupted after Ctrl-C. `what` names it in the progress
/// line ("dev"). A model whose result does not depend on how far inputs are padded gets batches of
/// samples of like length, padded no further than those; entries stand in the split's order all the
/// same. `processes`, where not null, take whole batches each, and all get the evaluation
/// that one process alone would make, to the same bits.
Evaluation evaluate(Model& model, const Split& split, const Config& config, torch::Device device,
                    const std::string& what, Processes* processes = nullptr);

/// The batch's logits at `places` in float32; the batch is on the device.
torch::Tensor logits_of(Model& model, const Batch& batch, const torch::Tensor& places,
                        ops::Dtype dtype, torch::Device device);

/// The options of a loader that a configuration asks for.
LoaderOptions loader_options(const Config& config);

/// And those that evaluate() reads a split with.
LoaderOptions evaluation_options(const Model& model, const Config& config);

/// What a configuration trains on: train, and dev too where test stands in for it
/// (`evaluation.dev`).
std::vector<Split> training_splits(const PreparedData& data, const Config& config);

/// What a configuration means by "train", "dev" or "test": test stands in for dev where
/// `evaluation.dev` says so. Throws UsageError for other names.
const Split& evaluation_split(const PreparedData& data, const Config& config,
                              const std::string& name);

}  // namespace lra
