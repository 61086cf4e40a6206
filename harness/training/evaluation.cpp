#include "harness/training/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/padding.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/steps/batch_feed.h"
#include "harness/training/token_evaluation.h"
#include "lra/model/labels.h"

namespace lra {

namespace {

// What the device makes of batches, on it until all are done: nothing waits for it before. In
// tensors for all: a small one kept of each batch would stand in the heap between the large ones
// that the next batch could take again, and memory would grow with the split.
class Answers {
 public:
  Answers(int64_t batches, int64_t examples, torch::Device device)
      : losses_(torch::empty({batches}, torch::TensorOptions(torch::kFloat32).device(device))),
        predicted_(torch::empty({examples}, torch::TensorOptions(torch::kInt64).device(device))),
        confidence_(torch::empty({examples}, losses_.options())) {}

  void add(const torch::Tensor& logits, const torch::Tensor& labels) {
    namespace F = torch::nn::functional;
    const auto summed = F::CrossEntropyFuncOptions().reduction(torch::kSum);
    losses_[batches_++].copy_(F::cross_entropy(logits, labels, summed));
    const int64_t count = logits.size(0);
    torch::Tensor predicted = predicted_.narrow(0, examples_, count),
                  confidence = confidence_.narrow(0, examples_, count);
    torch::argmax_out(predicted, logits, -1);
    torch::amax_out(confidence, logits.softmax(-1), -1);
    examples_ += count;
  }

  struct Values {
    torch::Tensor losses;                 // one a batch, float32
    torch::Tensor predicted, confidence;  // one an example
  };
  Values read() const {
    return {.losses = losses_.narrow(0, 0, batches_).cpu(),
            .predicted = predicted_.narrow(0, 0, examples_).cpu(),
            .confidence = confidence_.narrow(0, 0, examples_).cpu()};
  }

 private:
  torch::Tensor losses_, predicted_, confidence_;
  int64_t batches_ = 0, examples_ = 0;
};

// The number of the first example of each sample that a pass reads, and that behind the last.
std::vector<int64_t> first_examples(const Split& split, const LoaderOptions& options) {
  const int64_t samples = EvaluationPass::sample_count(split, options), cut = options.kept();
  std::vector<int64_t> first(1, 0), labels(static_cast<size_t>(cut));
  for (int64_t i = 0; i < samples; ++i) {
    int64_t count = 1;
    if (split.has_position_labels()) {
      const int64_t kept = split.copy_labels(i, cut, labels.data());
      count = std::count_if(labels.begin(), labels.begin() + kept,
                            [](int64_t label) { return label >= 0; });
    }
    first.push_back(first.back() + count);
  }
  return first;
}

// Puts what is known of a batch's examples into `result`: their numbers, in the order of its
// labels.
std::vector<size_t> enter_examples(const Batch& batch, const torch::Tensor& places,
                                   const std::vector<int64_t>& first, Evaluation& result) {
  const torch::Tensor labels = labels_at(batch.labels, places);
  const int64_t length = batch.mask.size(-1);
  std::vector<size_t> numbers;
  int64_t before = -1, next = 0;
  for (int64_t i = 0; i < labels.size(0); ++i) {
    const int64_t place = places.defined() ? places.const_data_ptr<int64_t>()[i] : i * length,
                  row = place / length, sample = batch.index.const_data_ptr<int64_t>()[row];
    next = row == before ? next + 1 : first[static_cast<size_t>(sample)];
    before = row;
    const auto number = static_cast<size_t>(next);
    numbers.push_back(number);
    result.labels[number] = labels.const_data_ptr<int64_t>()[i];
    result.lengths[number] = batch.lengths.const_data_ptr<int64_t>()[row];
    if (!places.defined()) continue;
    result.samples[number] = sample;
    result.positions[number] = place % length;
  }
  return numbers;
}

// Evaluates the batches that `options` name and puts into `result` what stands at their examples;
// and into `losses`, one a batch, their sums of losses.
void add_batches(Model& model, const Split& split, const LoaderOptions& options, ops::Dtype dtype,
                 torch::Device device, const std::string& what, const std::vector<int64_t>& first,
                 std::vector<double>& losses, Evaluation& result) {
  EvaluationPass pass(split, options);
  const int64_t batches = std::ssize(losses), samples = std::ssize(first) - 1;
  int64_t share = 0, done = 0;  // samples of this stride
  for (int64_t i = options.batches.index; i < batches; i += options.batches.of)
    share += std::min(options.batch, samples - i * options.batch);
  host::Progress progress("evaluate " + what, share);
  Answers answers(batches, result.count, device);
  std::vector<size_t> examples, numbers;  // of the answers, and of their batches
  int64_t number = options.batches.index;
  for (Batch batch; pass.next(batch); number += options.batches.of) {
    if (host::asked_to_stop()) throw host::Interrupted("stopped while evaluating " + what);
    const Batch there = send(batch, device);
    torch::Tensor places = label_places(batch.labels);
    std::ranges::copy(enter_examples(batch, places, first, result), std::back_inserter(examples));
    if (places.defined()) places = places.to(device);
    answers.add(logits_of(model, there, places, dtype, device), labels_at(there.labels, places));
    numbers.push_back(static_cast<size_t>(number));
    done += batch.labels.size(0);
    progress.update(done);
  }
  const auto [sums, predicted, confidence] = answers.read();
  for (size_t i = 0; i < numbers.size(); ++i)
    losses[numbers[i]] = static_cast<double>(sums.const_data_ptr<float>()[i]);
  for (size_t i = 0; i < examples.size(); ++i) {
    result.predicted[examples[i]] = predicted.const_data_ptr<int64_t>()[i];
    result.confidence[examples[i]] = confidence.const_data_ptr<float>()[i];
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
  whole(result.samples, torch::kInt64);
  whole(result.positions, torch::kInt64);
}

}  // namespace

torch::Tensor logits_of(Model& model, const Batch& batch, const torch::Tensor& places,
                        ops::Dtype dtype, torch::Device device) {
  const ops::FullMask full(batch.full ? batch.mask : torch::Tensor());
  const ops::AutocastScope autocast(device, dtype);
  return model.forward(batch.tokens, batch.mask, places).to(torch::kFloat32);
}

std::vector<stats::Cluster> Evaluation::clusters() const {
  std::vector<stats::Cluster> all;
  std::ranges::copy_if(tokens, std::back_inserter(all),
                       [](const stats::Cluster& sample) { return sample.count > 0; });
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i == 0 || samples[i] != samples[i - 1]) all.emplace_back();
    all.back().correct += labels[i] == predicted[i] ? 1 : 0;
    ++all.back().count;
  }
  return all;
}

std::string Evaluation::predictions_csv() const {
  const bool at_positions = !samples.empty();
  std::string text = "index,label,predicted,confidence";
  text += at_positions ? ",sample,position\n" : "\n";
  for (size_t i = 0; i < labels.size(); ++i) {
    text += fmt::format("{},{},{},{:.5f}", i, labels[i], predicted[i], confidence[i]);
    if (at_positions) text += fmt::format(",{},{}", samples[i], positions[i]);
    text += '\n';
  }
  return text;
}

LoaderOptions loader_options(const Config& config) {
  const TrainingOptions& t = config.settings.training;
  TokenObjective tokens{.objective = t.objective, .share = t.masked_share, .seed = config.seed};
  if (predicts_tokens(t.objective))
    tokens.hidden_id = task(config.task, config.settings.input.reading()).vocabulary;
  return {.batch = config.settings.evaluation.batch,
          .length = config.settings.input.length,
          .shuffle = false,
          .mask = config.settings.input.mask,
          .cut = config.settings.input.cut,
          .drop_last = config.settings.evaluation.drop_last,
          .seed = config.seed,
          .tokens = tokens};
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
  if (predicts_tokens(options.tokens.objective)) {
    Evaluation result =
        evaluate_tokens(model, split, options, config.dtype, device, what, processes);
    if (was_training) model.train();
    return result;
  }
  const std::vector<int64_t> first = first_examples(split, options);
  Evaluation result;
  result.count = first.back();
  const auto examples = static_cast<size_t>(result.count);
  result.labels.resize(examples);
  result.predicted.resize(examples);
  result.lengths.resize(examples);
  result.confidence.resize(examples);
  if (split.has_position_labels()) {
    result.samples.resize(examples);
    result.positions.resize(examples);
  }
  // Sums, one a batch.
  std::vector<double> losses(static_cast<size_t>(EvaluationPass::batch_count(split, options)));
  run_collective(processes, [&] {
    add_batches(model, split, options, config.dtype, device, what, first, losses, result);
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
