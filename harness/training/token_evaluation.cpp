#include "harness/training/token_evaluation.h"

#include <algorithm>
#include <vector>

#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/steps/batch_feed.h"
#include "lra/model/labels.h"

namespace lra {
namespace {

// Of all samples of a pass, on the host; zeros where another process evaluates.
struct TokenSums {
  torch::Tensor losses;                   // [batches] float64
  torch::Tensor correct, count, lengths;  // [samples] int64

  TokenSums(int64_t batches, int64_t samples)
      : losses(torch::zeros({batches}, torch::kDouble)),
        correct(torch::zeros({samples}, torch::kInt64)),
        count(torch::zeros_like(correct)),
        lengths(torch::zeros_like(correct)) {}
};

// How many of `values` [L] int64 there are of each of `samples` samples; `rows` [L]: whose.
torch::Tensor sums_of_samples(const torch::Tensor& values, const torch::Tensor& rows,
                              int64_t samples) {
  return torch::zeros({samples}, values.options()).index_add_(0, rows, values);
}

// What the device makes of batches, on it until all are done, in tensors for all (see Answers).
struct DeviceAnswers {
  torch::Tensor losses;   // [batches] float32: their sums
  torch::Tensor correct;  // [samples] int64

  DeviceAnswers(const TokenSums& sums, torch::Device device)
      : losses(torch::zeros({sums.losses.numel()},
                            torch::TensorOptions(torch::kFloat).device(device))),
        correct(torch::zeros_like(sums.correct, device)) {}
};

// Evaluates batch `number`.
void add_batch(Model& model, const Batch& batch, int64_t number, ops::Dtype dtype,
               torch::Device device, TokenSums& sums, DeviceAnswers& answers) {
  const int64_t samples = batch.labels.size(0), positions = batch.labels[0].numel();
  const torch::Tensor places = label_places(batch.labels), rows = places.div(positions, "floor");
  sums.count.index_copy_(0, batch.index, sums_of_samples(torch::ones_like(rows), rows, samples));
  sums.lengths.index_copy_(0, batch.index, batch.lengths);
  const Batch there = send(batch, device);
  const torch::Tensor places_there = places.to(device),
                      labels = labels_at(there.labels, places_there),
                      logits = logits_of(model, there, places_there, dtype, device),
                      right = logits.argmax(-1).eq(labels).to(torch::kInt64);
  namespace F = torch::nn::functional;
  const auto summed = F::CrossEntropyFuncOptions().reduction(torch::kSum);
  answers.losses[number].copy_(F::cross_entropy(logits, labels, summed));
  answers.correct.index_copy_(0, batch.index.to(device),
                              sums_of_samples(right, rows.to(device), samples));
}

// Evaluates the batches that `options` name.
void add_batches_of_tokens(Model& model, const Split& split, const LoaderOptions& options,
                           ops::Dtype dtype, torch::Device device, const std::string& what,
                           TokenSums& sums) {
  EvaluationPass pass(split, options);
  host::Progress progress("evaluate " + what, sums.count.numel() / options.batches.of);
  DeviceAnswers answers(sums, device);
  int64_t number = options.batches.index, done = 0;
  for (Batch batch; pass.next(batch); number += options.batches.of) {
    if (host::asked_to_stop()) throw host::Interrupted("stopped while evaluating " + what);
    add_batch(model, batch, number, dtype, device, sums, answers);
    done += batch.labels.size(0);
    progress.update(done);
  }
  sums.losses.copy_(answers.losses);
  sums.correct.copy_(answers.correct);
  progress.finish();
}

}  // namespace

std::string metric_of(Objective objective) {
  switch (objective) {
    case Objective::masked:
      return "masked_token_accuracy";
    case Objective::causal:
      return "next_token_accuracy";
    case Objective::classify:
      break;
  }
  return "";
}

std::string metric_words(const std::string& metric) {
  std::string words = metric.empty() ? "accuracy" : metric;
  std::ranges::replace(words, '_', ' ');
  return words;
}

Evaluation evaluate_tokens(Model& model, const Split& split, const LoaderOptions& options,
                           ops::Dtype dtype, torch::Device device, const std::string& what,
                           Processes* processes) {
  const int64_t samples = EvaluationPass::sample_count(split, options);
  TokenSums sums(EvaluationPass::batch_count(split, options), samples);
  run_collective(processes,
                 [&] { add_batches_of_tokens(model, split, options, dtype, device, what, sums); });
  if (processes != nullptr) {
    for (const torch::Tensor& part : {sums.losses, sums.correct, sums.count, sums.lengths})
      processes->sum(part);
  }
  Evaluation result;
  for (int64_t i = 0; i < sums.losses.numel(); ++i)
    result.loss += sums.losses.const_data_ptr<double>()[i];
  for (int64_t i = 0; i < samples; ++i) {
    result.tokens.push_back({.correct = sums.correct.const_data_ptr<int64_t>()[i],
                             .count = sums.count.const_data_ptr<int64_t>()[i]});
    result.lengths.push_back(sums.lengths.const_data_ptr<int64_t>()[i]);
    result.correct += result.tokens.back().correct;
    result.count += result.tokens.back().count;
  }
  if (result.count > 0) result.loss /= static_cast<double>(result.count);
  return result;
}

}  // namespace lra
