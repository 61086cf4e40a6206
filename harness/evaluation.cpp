#include "harness/evaluation.h"

#include <fmt/format.h>

#include "attention_variants/autocast.h"
#include "harness/progress.h"
#include "harness/signals.h"

namespace lra {

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
                    const std::string& what) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  Evaluation result;
  EvaluationPass pass(split, loader_options(config));
  Progress progress("evaluate " + what, split.size());
  for (Batch batch; pass.next(batch);) {
    if (stop_requested()) throw Interrupted("stopped while evaluating " + what);
    torch::Tensor logits;  // [B,classes]
    {
      const AutocastScope autocast(device, config.dtype);
      logits = model.forward(batch.tokens.to(device), batch.mask.to(device));
    }
    const auto labels = batch.labels.to(device);
    logits = logits.to(torch::kFloat32);
    result.loss +=
        torch::nn::functional::cross_entropy(
            logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
            .item<double>();
    const auto predicted = logits.argmax(-1).cpu();
    const auto confidence = std::get<0>(logits.softmax(-1).max(-1)).cpu();  // [B]
    const auto lengths = std::get<0>(batch.mask.sum(-1).max(-1));           // [B]
    for (int64_t i = 0; i < batch.labels.size(0); ++i) {
      result.labels.push_back(batch.labels[i].item<int64_t>());
      result.predicted.push_back(predicted[i].item<int64_t>());
      result.confidence.push_back(confidence[i].item<float>());
      result.lengths.push_back(lengths[i].item<int64_t>());
      result.correct += result.labels.back() == result.predicted.back() ? 1 : 0;
    }
    result.count += batch.labels.size(0);
    progress.update(result.count);
  }
  progress.finish();
  if (result.count > 0) result.loss /= static_cast<double>(result.count);
  if (was_training) model.train();
  return result;
}

}  // namespace lra
