#include "harness/training/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "attention_variants/ops/autocast.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"

namespace lra {

namespace {

// Evaluates the batches that `options` name and puts into `result` what stands at their samples;
// and into `losses`, one a batch, their sums of losses.
void add_batches(Model& model, const Split& split, const LoaderOptions& options, ops::Dtype dtype,
                 torch::Device device, const std::string& what, std::vector<double>& losses,
                 Evaluation& result) {
  EvaluationPass pass(split, options);
  const int64_t batches = std::ssize(losses);
  int64_t share = 0, done = 0, number = options.batches.index;  // samples of these turns
  for (int64_t i = number; i < batches; i += options.batches.of)
    share += std::min(options.batch, result.count - i * options.batch);
  host::Progress progress("evaluate " + what, share);
  for (Batch batch; pass.next(batch); number += options.batches.of) {
    if (host::stop_requested()) throw host::Interrupted("stopped while evaluating " + what);
    torch::Tensor logits;  // [B,classes]
    {
      const ops::AutocastScope autocast(device, dtype);
      logits = model.forward(batch.tokens.to(device), batch.mask.to(device));
    }
    const auto labels = batch.labels.to(device);
    logits = logits.to(torch::kFloat32);
    losses[static_cast<size_t>(number)] =
        torch::nn::functional::cross_entropy(
            logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
            .item<double>();
    const auto predicted = logits.argmax(-1).cpu();
    const auto confidence = std::get<0>(logits.softmax(-1).max(-1)).cpu();  // [B]
    const auto lengths = std::get<0>(batch.mask.sum(-1).max(-1));           // [B]
    for (int64_t i = 0; i < batch.labels.size(0); ++i) {
      const auto sample = static_cast<size_t>(batch.index[i].item<int64_t>());
      result.labels[sample] = batch.labels[i].item<int64_t>();
      result.predicted[sample] = predicted[i].item<int64_t>();
      result.confidence[sample] = confidence[i].item<float>();
      result.lengths[sample] = lengths[i].item<int64_t>();
    }
    done += batch.labels.size(0);
    progress.update(done);
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
