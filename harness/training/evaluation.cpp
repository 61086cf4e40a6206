#include "harness/training/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/padding.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/steps/batch_feed.h"

namespace lra {

namespace {

// What the device makes of batches, on it until all are done: nothing waits for it before.
class Answers {
 public:
  void add(const torch::Tensor& logits, const torch::Tensor& labels) {
    losses_.push_back(torch::nn::functional::cross_entropy(
        logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)));
    predicted_.push_back(logits.argmax(-1));
    confidence_.push_back(std::get<0>(logits.softmax(-1).max(-1)));
  }

  struct Values {
    torch::Tensor losses;                 // one a batch, float32
    torch::Tensor predicted, confidence;  // one a sample
  };
  Values read() const {
    if (losses_.empty()) return {};
    return {.losses = torch::stack(losses_).cpu(),
            .predicted = torch::cat(predicted_).cpu(),
            .confidence = torch::cat(confidence_).cpu()};
  }

 private:
  std::vector<torch::Tensor> losses_, predicted_, confidence_;
};

torch::Tensor logits_of(Model& model, const Batch& batch, ops::Dtype dtype, torch::Device device) {
  const ops::FullMask full(batch.full ? batch.mask : torch::Tensor());
  const ops::AutocastScope autocast(device, dtype);
  return model.forward(batch.tokens, batch.mask);  // [B,classes]
}

// Evaluates the batches that `options` name and puts into `result` what stands at their samples;
// and into `losses`, one a batch, their sums of losses.
void add_batches(Model& model, const Split& split, const LoaderOptions& options, ops::Dtype dtype,
                 torch::Device device, const std::string& what, std::vector<double>& losses,
                 Evaluation& result) {
  EvaluationPass pass(split, options);
  const int64_t batches = std::ssize(losses);
  int64_t share = 0;  // samples of these turns
  for (int64_t i = options.batches.index; i < batches; i += options.batches.of)
    share += std::min(options.batch, result.count - i * options.batch);
  host::Progress progress("evaluate " + what, share);
  Answers answers;
  std::vector<size_t> samples, numbers;  // of the answers: rows of the split, and batches
  int64_t number = options.batches.index;
  for (Batch batch; pass.next(batch); number += options.batches.of) {
    if (host::stop_requested()) throw host::Interrupted("stopped while evaluating " + what);
    const Batch there = send(batch, device);
    answers.add(logits_of(model, there, dtype, device).to(torch::kFloat32), there.labels);
    numbers.push_back(static_cast<size_t>(number));
    const auto lengths = std::get<0>(batch.mask.sum(-1).max(-1));  // [B]
    for (int64_t i = 0; i < batch.labels.size(0); ++i) {
      const auto sample = static_cast<size_t>(batch.index.const_data_ptr<int64_t>()[i]);
      samples.push_back(sample);
      result.labels[sample] = batch.labels.const_data_ptr<int64_t>()[i];
      result.lengths[sample] = lengths.const_data_ptr<int64_t>()[i];
    }
    progress.update(std::ssize(samples));
  }
  const auto [sums, predicted, confidence] = answers.read();
  for (size_t i = 0; i < numbers.size(); ++i)
    losses[numbers[i]] = static_cast<double>(sums.const_data_ptr<float>()[i]);
  for (size_t i = 0; i < samples.size(); ++i) {
    result.predicted[samples[i]] = predicted.const_data_ptr<int64_t>()[i];
    result.confidence[samples[i]] = confidence.const_data_ptr<float>()[i];
  }
  progress.finish();
}

// The sums over all processes, each of which has zeros where another evaluated.
void gather_shares(Processes& processes, std::vector<double>& losses, Evaluation& result) {
  const auto whole = [&](auto& mine, torch::ScalarType type) {
    using Value = typename std::remove_reference_t<decltype(mine)>::value_type;
    using Sent = std::conditional_t<std::is_same_v<Value, int64_t>, int64_t, double>;
    torch::Tensor all = torch::zeros({std::ssize(mine)}, type);
    auto* values = all.data_ptr<Sent>();
    std::copy(mine.begin(), mine.end(), values);
    processes.sum(all);
    mine.assign(values, values + mine.size());
  };
  whole(losses, torch::kDouble);
  whole(result.labels, torch::kInt64);
  whole(result.predicted, torch::kInt64);
  whole(result.lengths, torch::kInt64);
  whole(result.confidence, torch::kDouble);
}

}  // namespace

std::string Evaluation::predictions_csv() const {
  std::string text = "index,label,predicted,confidence\n";
  for (size_t i = 0; i < labels.size(); ++i)
    text += fmt::format("{},{},{},{:.5f}\n", i, labels[i], predicted[i], confidence[i]);
  return text;
}

LoaderOptions loader_options(const Config& config) {
  return {.batch = config.settings.evaluation.batch,
          .length = config.settings.input.length,
          .shuffle = false,
          .nonzero_mask = config.settings.input.mask == InputMask::nonzero,
          .all_real = config.settings.input.mask == InputMask::none,
          .cut = config.settings.input.cut,
          .drop_last = config.settings.evaluation.drop_last,
          .seed = config.seed};
}

LoaderOptions evaluation_options(const Model& model, const Config& config) {
  LoaderOptions options = loader_options(config);
  options.by_length = model.length_invariant();
  return options;
}

std::vector<Split> training_splits(const PreparedData& data, const Config& config) {
  std::vector<Split> splits = {data.split("train")};
  if (config.settings.evaluation.dev != DevSplit::dev) splits.push_back(data.split("dev"));
  return splits;
}

const Split& evaluation_split(const PreparedData& data, const Config& config,
                              const std::string& name) {
  return data.split(name == "dev" ? to_string(config.settings.evaluation.dev) : name);
}

Evaluation evaluate(Model& model, const Split& split, const Config& config, torch::Device device,
                    const std::string& what, Processes* processes) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  LoaderOptions options = evaluation_options(model, config);
  if (processes != nullptr) options.batches = {processes->rank(), processes->size()};
  Evaluation result;
  result.count = EvaluationPass::sample_count(split, options);
  const auto samples = static_cast<size_t>(result.count);
  result.labels.resize(samples);
  result.predicted.resize(samples);
  result.lengths.resize(samples);
  result.confidence.resize(samples);
  // Sums, one a batch.
  std::vector<double> losses(static_cast<size_t>(EvaluationPass::batch_count(split, options)));
  run_collective(processes, [&] {
    add_batches(model, split, options, config.dtype, device, what, losses, result);
  });
  if (processes != nullptr) gather_shares(*processes, losses, result);
  for (const double loss : losses) result.loss += loss;
  for (size_t i = 0; i < result.labels.size(); ++i)
    result.correct += result.labels[i] == result.predicted[i] ? 1 : 0;
  if (result.count > 0) result.loss /= static_cast<double>(result.count);
  if (was_training) model.train();
  return result;
}

}  // namespace lra
