#include "harness/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "attention_variants/autocast.h"
#include "harness/progress.h"
#include "harness/signals.h"

namespace lra {

namespace {

// Evaluates the batches that `options` name and adds an entry an example to `result`; returns the
// sum of losses of each batch.
std::vector<double> add_batches(Model& model, const Split& split, const LoaderOptions& options,
                                const std::string& dtype, torch::Device device,
                                const std::string& what, Evaluation& result) {
  std::vector<double> losses;
  EvaluationPass pass(split, options);
  const int64_t begin = options.batches.begin * options.batch,
                end = std::min(options.batches.end * options.batch, split.size());
  Progress progress("evaluate " + what, end - begin);
  for (Batch batch; pass.next(batch);) {
    if (stop_requested()) throw Interrupted("stopped while evaluating " + what);
    torch::Tensor logits;  // [B,classes]
    {
      const AutocastScope autocast(device, dtype);
      logits = model.forward(batch.tokens.to(device), batch.mask.to(device));
    }
    const auto labels = batch.labels.to(device);
    logits = logits.to(torch::kFloat32);
    losses.push_back(
        torch::nn::functional::cross_entropy(
            logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
            .item<double>());
    const auto predicted = logits.argmax(-1).cpu();
    const auto confidence = std::get<0>(logits.softmax(-1).max(-1)).cpu();  // [B]
    const auto lengths = std::get<0>(batch.mask.sum(-1).max(-1));           // [B]
    for (int64_t i = 0; i < batch.labels.size(0); ++i) {
      result.labels.push_back(batch.labels[i].item<int64_t>());
      result.predicted.push_back(predicted[i].item<int64_t>());
      result.confidence.push_back(confidence[i].item<float>());
      result.lengths.push_back(lengths[i].item<int64_t>());
    }
    progress.update(static_cast<int64_t>(result.labels.size()));
  }
  progress.finish();
  return losses;
}

// The shares of all processes, put where they belong: each adds its own to zeros.
void gather_shares(Processes& processes, const LoaderOptions& options, int64_t batches,
                   int64_t samples, std::vector<double>& losses, Evaluation& result) {
  const auto whole = [&](auto& mine, int64_t begin, int64_t count, torch::ScalarType type) {
    using Value = typename std::remove_reference_t<decltype(mine)>::value_type;
    using Sent = std::conditional_t<std::is_same_v<Value, int64_t>, int64_t, double>;
    torch::Tensor all = torch::zeros({count}, type);
    auto* values = all.data_ptr<Sent>();
    std::copy(mine.begin(), mine.end(), values + begin);
    processes.sum(all);
    mine.assign(values, values + count);
  };
  const int64_t begin = options.batches.begin, first = std::min(begin * options.batch, samples);
  whole(losses, begin, batches, torch::kDouble);
  whole(result.labels, first, samples, torch::kInt64);
  whole(result.predicted, first, samples, torch::kInt64);
  whole(result.lengths, first, samples, torch::kInt64);
  whole(result.confidence, first, samples, torch::kDouble);
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
          .nonzero_mask = config.settings.input.mask == "nonzero",
          .drop_last = config.settings.evaluation.drop_last,
          .seed = config.seed};
}

std::vector<Split> training_splits(const PreparedData& data, const Config& config) {
  std::vector<Split> splits = {data.split("train")};
  if (config.settings.evaluation.dev != "dev") splits.push_back(data.split("dev"));
  return splits;
}

const Split& evaluation_split(const PreparedData& data, const Config& config,
                              const std::string& name) {
  return data.split(name == "dev" ? config.settings.evaluation.dev : name);
}

Evaluation evaluate(Model& model, const Split& split, const Config& config, torch::Device device,
                    const std::string& what, Processes* processes) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  LoaderOptions options = loader_options(config);
  const int64_t batches = EvaluationPass::batch_count(split, options);
  options.batches = processes == nullptr ? Range{0, batches}
                                         : share_of(batches, processes->rank(), processes->size());
  Evaluation result;
  std::vector<double> losses;  // sums, one a batch
  together(processes, [&] {
    losses = add_batches(model, split, options, config.dtype, device, what, result);
  });
  if (processes != nullptr) {
    const int64_t samples = std::min(split.size(), batches * options.batch);
    gather_shares(*processes, options, batches, samples, losses, result);
  }
  for (const double loss : losses) result.loss += loss;
  result.count = static_cast<int64_t>(result.labels.size());
  for (size_t i = 0; i < result.labels.size(); ++i)
    result.correct += result.labels[i] == result.predicted[i] ? 1 : 0;
  if (result.count > 0) result.loss /= static_cast<double>(result.count);
  if (was_training) model.train();
  return result;
}

}  // namespace lra
