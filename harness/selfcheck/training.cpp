// Whether training on the device leads where it leads on a CPU.
#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/random.h"
#include "attention_variants/python_host.h"
#include "harness/selfcheck/checks.h"
#include "harness/steps/batch_feed.h"
#include "harness/steps/step_graph.h"
#include "harness/training/evaluation.h"
#include "harness/training/learner.h"
#include "lra/data/split.h"

namespace lra::selfcheck {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr uint64_t kSeed = 3;
// Largest relative errors of logits in float32: of one pass, and after steps, which a gradient's
// rounding changes where the optimizer divides by its size.
constexpr double kPassLimit = 1e-3, kStepsLimit = 1e-2;

// Random samples of several lengths.
Split random_split(const Task& task, int64_t length, const fs::path& path) {
  SplitWriter writer(task.inputs);
  CounterRandom random(kSeed, /*stream=*/0);
  for (int64_t sample = 0; sample < 32; ++sample) {
    for (int64_t input = 0; input < task.inputs; ++input) {
      std::vector<uint16_t> ids(length / 2 + random.below(static_cast<uint32_t>(length / 2)) + 1);
      for (uint16_t& id : ids)
        id = static_cast<uint16_t>(1 + random.below(static_cast<uint32_t>(task.vocabulary - 1)));
      writer.tokens(ids);
    }
    writer.label(random.below(static_cast<uint32_t>(task.classes)));
  }
  writer.write(path, task.vocabulary);
  return Split(path, task.inputs, task.classes, task.vocabulary);
}

// A model of the protocol, small in length and batch, that takes steps on random samples.
class Trainer {
 public:
  Trainer(const CheckSubject& subject, torch::Device device, const Words& sets)
      : config_(configured(*subject.attention, sets)),
        device_(device),
        split_(random_split(task(config_.task), config_.settings.input.length,
                            subject.folder / "samples.safetensors")),
        learner_(config_, device, /*processes=*/nullptr, /*micro_batches=*/1, step_graphs(device)) {
  }

  void take_steps(int64_t count) {
    learner_.model().train();
    LoaderOptions options = loader_options(config_);
    options.batch = config_.settings.training.batch;
    options.shuffle = true;
    const std::vector<Split> splits = {split_};
    const FeedKind kind = feed_kind(splits, options, device_, /*room=*/1 << 20);
    const std::unique_ptr<BatchFeed> feed = make_feed(kind, splits, options, device_, at_.step);
    for (int64_t i = 0; i < count; ++i, ++at_.step) learner_.step(*feed, at_);
  }

  StepExecution execution() const { return learner_.execution(); }

  void save(const fs::path& path) {
    save_checkpoint(path, identity(), at_, learner_.model(), &learner_.optimizer(), device_);
  }
  void load(const fs::path& path) {
    at_ = load_checkpoint(path, identity(), learner_.model(), &learner_.optimizer(), device_);
  }

  enum class Mode { evaluation, training };  // training: with dropouts by a fixed seed
  /// [B,classes] of the first samples, float64 on the CPU.
  torch::Tensor logits(Mode mode = Mode::evaluation) {
    const torch::NoGradGuard no_grad;
    LoaderOptions options = loader_options(config_);
    options.batch = config_.settings.training.batch;
    const Batch batch = TrainingStream(split_, options).next();
    Model& model = learner_.model();
    model.train(mode == Mode::training);
    if (mode == Mode::training) seed_generators(kSeed);
    return model.forward(batch.tokens.to(device_), batch.mask.to(device_)).cpu().to(torch::kDouble);
  }

 private:
  static Config configured(const AttentionSpec& attention, Words sets) {
    sets.insert(sets.begin(),
                {"input.length=128", "training.batch=4", "training.steps=6",
                 "schedule.kind=constant", "schedule.warmup=0", "optimizer.lr=0.001"});
    return make_config(load_protocol("lra-strict"), tasks().front()->name, attention, sets, kSeed,
                       "float32");
  }
  json identity() const { return config_identity(config_.to_json()); }

  Config config_;
  torch::Device device_;
  Split split_;
  Learner learner_;
  TrainState at_;
};

double relative(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

const Words kReference = {"kernels=reference"};

// Settings without a dropout: where one is LibTorch's own, a GPU drops other elements than a CPU.
Words undropped(Words sets = {}) {
  sets.emplace_back("model.dropout=0");
  return sets;
}

torch::Tensor logits_after_steps(const CheckSubject& subject, torch::Device device,
                                 const Words& sets) {
  Trainer trainer(subject, device, sets);
  trainer.take_steps(6);
  return trainer.logits();
}

bool drops_weights(const AttentionSpec& attention) {
  const json options = attention_record(attention).options;
  return options.contains("dropout") && options["dropout"].is_number() &&
         options["dropout"].get<double>() > 0;
}

}  // namespace

void check_dropout(const CheckSubject& subject, CheckReport& report) {
  using Mode = Trainer::Mode;
  skip_without_own_kernels(subject.device);
  if (subject.device.is_cuda() && drops_weights(*subject.attention))
    throw CheckEnd(Finding::skipped, "its weights are dropped by LibTorch's numbers on a GPU");
  const Words dropping = {"model.dropout=0.2"};
  const torch::Tensor found = Trainer(subject, subject.device, dropping).logits(Mode::training);
  Words reference = kReference;
  reference.insert(reference.end(), dropping.begin(), dropping.end());
  const torch::Tensor exact = Trainer(subject, torch::kCPU, reference).logits(Mode::training);
  report.at_most("logits in training", relative(found, exact), kPassLimit);
}

void check_steps(const CheckSubject& subject, CheckReport& report) {
  report.at_most("logits after 6 steps",
                 relative(logits_after_steps(subject, subject.device, undropped()),
                          logits_after_steps(subject, torch::kCPU, undropped(kReference))),
                 kStepsLimit);
}

void check_graph(const CheckSubject& subject, CheckReport& report) {
  if (!subject.device.is_cuda()) throw CheckEnd(Finding::skipped, "no graph on a CPU");
  const Words graph = {"execution=graph"};
  const StepExecution how = Trainer(subject, subject.device, graph).execution();
  if (!how.graph) throw CheckEnd(Finding::skipped, how.reason);
  check_graph(subject, graph, {"execution=eager"}, report);
  // And with the optimizer outside the graph.
  const std::string groups = R"(optimizer.groups=[{"match":["tokens.*"],"lr":0.002}])";
  check_graph(subject, {"execution=graph", groups}, {"execution=eager", groups}, report);
}

void check_graph(const CheckSubject& subject, const Words& graph, const Words& eager,
                 CheckReport& report) {
  // A rate that every step changes: one that a recording keeps is another's after six.
  const auto rising = [](Words sets) {
    sets.insert(sets.end(), {"schedule.kind=cosine", "schedule.warmup=6"});
    return undropped(std::move(sets));
  };
  report.at_most("logits after 6 steps as a graph",
                 relative(logits_after_steps(subject, subject.device, rising(graph)),
                          logits_after_steps(subject, subject.device, rising(eager))),
                 kPassLimit);
}

void check_resume(const CheckSubject& subject, CheckReport& report) {
  const bool same_bits = subject.device.is_cpu();
  const Words sets = same_bits ? Words{} : undropped();
  const fs::path first = subject.folder / "first.safetensors",
                 second = subject.folder / "second.safetensors";
  Trainer on_cpu(subject, torch::kCPU, sets);
  on_cpu.take_steps(2);
  on_cpu.save(first);
  Trainer on_device(subject, subject.device, sets);
  on_device.load(first);
  on_device.take_steps(2);
  on_device.save(second);
  Trainer back(subject, torch::kCPU, sets);
  back.load(second);
  back.take_steps(2);
  report.at_most("logits of a run that went on twice",
                 relative(back.logits(), logits_after_steps(subject, torch::kCPU, sets)),
                 same_bits ? 0 : kStepsLimit);
}

}  // namespace lra::selfcheck
