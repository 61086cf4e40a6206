// Small runs on a device that tells what it is asked, for the tests of training steps.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/random.h"
#include "attention_variants/python_host.h"
#include "harness/steps/batch_feed.h"
#include "harness/training/learner.h"
#include "lra/config/protocol.h"
#include "tests/harness/steps/recorded_device.h"
#include "tests/support/scratch.h"
#include "tests/support/shipped.h"

namespace lra {

/// `count` samples of random tokens in the task's form, of `shortest` to 128 tokens.
inline Split random_split(const Task& of, const std::filesystem::path& path, int64_t count,
                          uint32_t shortest = 20) {
  constexpr uint32_t kLongest = 128;
  CounterRandom random(1, 0);
  SplitWriter writer(of.inputs);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < of.inputs; ++j) {
      std::vector<uint16_t> ids(shortest + random.below(kLongest - shortest + 1));
      for (uint16_t& id : ids)
        id = static_cast<uint16_t>(1 + random.below(static_cast<uint32_t>(of.vocabulary) - 1));
      writer.tokens(ids);
    }
    writer.label(i % of.classes);
  }
  writer.write(path, of.vocabulary);
  return Split(path, of.inputs, of.classes, of.vocabulary);
}

/// All variants, with blocks, windows and budgets that are a part of 128 tokens.
inline std::vector<std::string> step_attentions() {
  const std::map<std::string, std::string> options = {{"bigbird", "block=8,random_blocks=1"},
                                                      {"linformer", "projected_length=16"},
                                                      {"local", "block=16"},
                                                      {"longformer", "window=16,global_tokens=1"},
                                                      {"nystrom", "num_landmarks=16"},
                                                      {"performer", "num_features=16"},
                                                      {"reformer", "chunk_length=16"},
                                                      {"sinkhorn", "block=16"},
                                                      {"skyformer", "num_features=16"},
                                                      {"sparse", "block=16,summary=4"}};
  std::vector<std::string> specs;
  for (const AttentionEntry* entry : shipped_attentions()) {
    const auto given = options.find(entry->info.name);
    specs.push_back(entry->info.name + (given == options.end() ? "" : "[" + given->second + "]"));
  }
  return specs;
}

/// The strict protocol's model and optimizer at 128 tokens, by LibTorch's operators.
inline Config step_config(const std::string& task, const std::string& attention,
                          std::vector<std::string> more = {}) {
  std::vector<std::string> sets = {
      "input.length=128",    "model.width=16",        "model.head_dim=8",  "model.feed_forward=16",
      "model.classifier=16", "training.batch=4",      "training.steps=40", "schedule.warmup=4",
      "evaluation.batch=4",  "optimizer.clip_norm=1", "kernels=reference"};
  sets.insert(sets.end(), more.begin(), more.end());
  return make_config(load_protocol("lra-strict"), task, parse_attention(attention), sets, 0,
                     "float32");
}

/// A run of training steps, without a folder.
class StepRun {
 public:
  StepRun(Config config, const Split& split, torch::Device device,
          const StepGraphMaker& graphs = nullptr)
      : config_(std::move(config)), split_(split), learner_(config_, device, nullptr, 1, graphs) {
    learner_.model().train();
    go_on(device);
  }
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  /// Batches from the state's step on.
  void go_on(torch::Device device) {
    LoaderOptions options{.batch = config_.settings.training.batch,
                          .length = config_.settings.input.length,
                          .shuffle = true};
    learner_.set_window(at_);
    feed_ = make_feed(device.is_cpu() ? FeedKind::host : FeedKind::resident, {split_}, options,
                      device, at_.step);
  }

  void step() {
    learner_.step(*feed_, at_);
    ++at_.step;
  }
  /// The window's sum of losses after `count` more steps.
  double loss_after(int64_t count) {
    for (int64_t i = 0; i < count; ++i) step();
    learner_.read_window(at_);
    return at_.window_loss;
  }

  Learner& learner() { return learner_; }
  TrainState& at() { return at_; }
  const Config& config() const { return config_; }

 private:
  Config config_;
  Split split_;
  Learner learner_;
  TrainState at_;
  std::unique_ptr<BatchFeed> feed_;
};

}  // namespace lra
