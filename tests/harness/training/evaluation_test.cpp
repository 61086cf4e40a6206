// Evaluation: each sample gets what the model makes of it alone at the full length, whatever batch
// it stood in.
#include "harness/training/evaluation.h"

#include <gtest/gtest.h>

#include <c10/core/Allocator.h>

#include "harness/training/result.h"
#include "results/statistics/statistics.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

constexpr int64_t kLength = 200;

class EvaluationTest : public testing::Test {
 protected:
  // Samples of 0 to 240 tokens, in no order of length.
  Split make_split() const {
    SplitWriter writer;
    for (int64_t i = 0; i < 23; ++i) {
      std::vector<uint16_t> ids;
      for (int64_t j = 0; j < i * 97 % 241; ++j)
        ids.push_back(static_cast<uint16_t>(1 + (i + j * j) % 6));
      writer.tokens(ids);
      writer.label(i % 3);
    }
    const auto path = scratch_.path() / "split.safetensors";
    writer.write(path, 7);
    return Split(path, 1, 3, 7);
  }

  static Config config_of(const std::string& attention) {
    Config config = toy_config(attention);
    config.settings.input.length = kLength;
    config.settings.evaluation.batch = 4;
    return config;
  }

  Scratch scratch_;
};

// Labels at positions: each is an example, in the order of samples and positions.
TEST_F(EvaluationTest, GivesEachLabelledPositionItsOwnResult) {
  SplitWriter writer;
  int64_t count = 0;
  for (int64_t i = 0; i < 23; ++i) {
    std::vector<uint16_t> ids;
    std::vector<int32_t> labels;
    for (int64_t j = 0; j <= i * 97 % 190; ++j) {
      ids.push_back(static_cast<uint16_t>(1 + (i + j * j) % 6));
      labels.push_back(j % 7 == 0 ? static_cast<int32_t>((i + j) % 7) : -1);
      count += labels.back() >= 0 ? 1 : 0;
    }
    writer.tokens(ids);
    writer.labels(labels);
  }
  const auto path = scratch_.path() / "labelled.safetensors";
  writer.write(path, 7);
  const Split split(path, 1, 7, 7);
  Task task = toy_task(1);
  task.classes = 7;
  task.position_labels = true;
  Config config = config_of("standard");
  config.settings.model.head = Head::tied;
  config.settings.model.causal = true;
  torch::manual_seed(2);
  Model model(task, config);
  EXPECT_TRUE(evaluation_options(model, config).by_length);
  EXPECT_FALSE(model.capturable());
  const Evaluation found = evaluate(model, split, config, torch::kCPU, "test");
  ASSERT_EQ(found.count, count);
  model.eval();
  double loss = 0;
  size_t example = 0;
  std::vector<int64_t> labels(kLength);
  for (int64_t i = 0; i < split.size(); ++i) {
    const Batch one = gather_batch({split}, {i}, kLength, loader_options(config));
    const torch::Tensor logits = model.forward(one.tokens, one.mask);  // [1,N,7]
    const int64_t length = split.copy_labels(i, kLength, labels.data());
    for (int64_t j = 0; j < length; ++j) {
      if (labels[static_cast<size_t>(j)] < 0) continue;
      EXPECT_EQ(found.samples[example], i);
      EXPECT_EQ(found.positions[example], j);
      EXPECT_EQ(found.lengths[example], length);
      EXPECT_EQ(found.labels[example], labels[static_cast<size_t>(j)]);
      const torch::Tensor here = logits[0][j].unsqueeze(0);
      EXPECT_EQ(found.predicted[example], here.argmax(-1).item<int64_t>());
      loss +=
          torch::nn::functional::cross_entropy(here, one.labels[0][j].unsqueeze(0)).item<double>();
      ++example;
    }
  }
  EXPECT_NEAR(found.loss, loss / static_cast<double>(count), 1e-4);
  const Accuracy accuracy = accuracy_of(found, kLength);
  EXPECT_EQ(accuracy.samples, split.size());
  EXPECT_EQ(accuracy.count, count);
  EXPECT_EQ(accuracy.ci95.low, stats::clustered_interval(found.clusters()).low);
  EXPECT_TRUE(
      found.predictions_csv().starts_with("index,label,predicted,confidence,sample,position\n0,"));
}

// How many tensors there are at once, of those that a thread allocates.
class LiveTensors final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    live_ += bytes > 0 ? 1 : -1;
    most_ = std::max(most_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  int64_t live_ = 0, most_ = 0;
};

// A small tensor kept of each batch would keep the heap from using again what lies around it.
TEST_F(EvaluationTest, KeepsNoTensorOfABatch) {
  const auto most_of = [&](int64_t samples, Objective objective) {
    SplitWriter writer;
    for (int64_t i = 0; i < samples; ++i) {
      writer.tokens(std::vector<uint16_t>(20, static_cast<uint16_t>(1 + i % 6)));
      writer.label(i % 3);
    }
    const auto path = scratch_.path() / (std::to_string(samples) + ".safetensors");
    writer.write(path, 7);
    Config config = config_of("standard");
    config.task = "listops";
    config.settings.training.objective = objective;
    Model model(task(config.task), config);
    const auto live = std::make_shared<LiveTensors>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, live);
    EXPECT_EQ(evaluate(model, Split(path, 1, 3, 7), config, torch::kCPU, "test").tokens.empty(),
              !predicts_tokens(objective));
    return live->most();
  };
  for (const Objective objective : {Objective::classify, Objective::masked}) {
    const int64_t few = most_of(12, objective), many = most_of(240, objective);
    EXPECT_GT(few, 10);
    EXPECT_LT(many, few + 10);
  }
}

// A mask of padding too says nothing of how long a sample is.
TEST_F(EvaluationTest, LengthsAreOfTheSamplesWhateverTheMask) {
  const Split split = make_split();
  for (const InputMask mask : {InputMask::none, InputMask::nonzero, InputMask::length}) {
    Config config = config_of("standard");
    config.settings.input.mask = mask;
    Model model(toy_task(1), config);
    const Evaluation found = evaluate(model, split, config, torch::kCPU, "test");
    ASSERT_EQ(std::ssize(found.lengths), split.size());
    for (int64_t i = 0; i < split.size(); ++i)
      EXPECT_EQ(found.lengths[static_cast<size_t>(i)], std::min(kLength, split.length(i)));
    EXPECT_GT(accuracy_of(found, kLength).by_length.size(), 4u);
  }
}

TEST_F(EvaluationTest, GivesEachSampleItsOwnResultInTheOrderOfTheSplit) {
  const Split split = make_split();
  struct Case {
    const char* attention;
    MeanOver mean_over;
    bool drop_last, by_length;
    Pooling pooling = Pooling::mean;
  };
  for (const Case& c :
       {Case{"standard", MeanOver::real, false, true}, Case{"standard", MeanOver::real, true, true},
        Case{"standard", MeanOver::length, false, false},
        Case{"standard", MeanOver::length, false, true, Pooling::cls},
        Case{"longformer[window=32,global_tokens=2]", MeanOver::real, false, true},
        Case{"linformer[projected_length=8]", MeanOver::real, false, true},
        Case{"nystrom[num_landmarks=4,conv_kernel_size=3]", MeanOver::real, false, false},
        Case{"performer[num_features=8]", MeanOver::real, false, true},
        Case{"performer[num_features=8,prescale=true]", MeanOver::real, false, false}}) {
    Config config = config_of(c.attention);
    config.settings.model.mean_over = c.mean_over;
    config.settings.model.pooling = c.pooling;
    config.settings.evaluation.drop_last = c.drop_last;
    torch::manual_seed(2);
    Model model(toy_task(1), config);
    EXPECT_EQ(evaluation_options(model, config).by_length, c.by_length) << c.attention;
    const Evaluation found = evaluate(model, split, config, torch::kCPU, "test");
    EXPECT_TRUE(model.is_training()) << "as it was";

    const int64_t count = c.drop_last ? 20 : 23;
    ASSERT_EQ(found.count, count);
    ASSERT_EQ(std::ssize(found.predicted), count);
    model.eval();
    const torch::NoGradGuard no_grad;
    EvaluationPass pass(split, {.batch = 1, .length = kLength});
    double loss = 0;
    int64_t correct = 0;
    for (int64_t i = 0; i < count; ++i) {
      Batch one;
      ASSERT_TRUE(pass.next(one));
      const torch::Tensor logits = model.forward(one.tokens, one.mask);  // [1,3]
      const auto sample = static_cast<size_t>(i);
      EXPECT_EQ(found.labels[sample], split.label(i));
      EXPECT_EQ(found.lengths[sample], std::min(kLength, split.length(i)));
      EXPECT_EQ(found.predicted[sample], logits.argmax().item<int64_t>()) << c.attention << i;
      EXPECT_NEAR(found.confidence[sample], logits.softmax(-1).max().item<double>(), 1e-5);
      loss += torch::nn::functional::cross_entropy(logits, one.labels).item<double>();
      correct += logits.argmax().item<int64_t>() == split.label(i) ? 1 : 0;
    }
    EXPECT_NEAR(found.loss, loss / static_cast<double>(count), 1e-5) << c.attention;
    EXPECT_EQ(found.correct, correct) << c.attention;
    // The interval of the record is of these samples, and of no other.
    const Accuracy accuracy = accuracy_of(found, kLength);
    EXPECT_EQ(accuracy.count, count);
    const stats::Interval wilson = stats::wilson_interval(correct, count);
    EXPECT_EQ(accuracy.ci95.low, wilson.low);
    EXPECT_EQ(accuracy.ci95.high, wilson.high);
  }
}

TrainRequest a_request() {
  return {.config = make_config(load_protocol("lra-strict"), "listops", parse_attention("standard"),
                                {}, 0, "float32")};
}

TEST(TrainingCost, HasNoPeakOfMemoryThatCannotBeTold) {
  const TrainRequest request = a_request();
  TrainState at{.step = 10, .train_seconds = 2};
  EXPECT_EQ(training_cost(request, at).steps_per_second, 5);
  EXPECT_FALSE(training_cost(request, at).peak_memory_mib);
  at.peak_bytes = 3 << 20;
  EXPECT_EQ(training_cost(request, at).peak_memory_mib, 3);
}

TEST(TrainingCost, SaysNothingOfOthersWhereTheSystemDoesNot) {
  TrainRequest request = a_request();
  request.threads = 2;
  TrainState at{.step = 10, .seconds = 4, .train_seconds = 2, .waited_seconds = 2};
  EXPECT_EQ(training_cost(request, at).others, 0.25);
  at.waited_seconds = kNotMeasured;
  EXPECT_FALSE(training_cost(request, at).others);
}

TEST(TrainingCost, SaysHowManyRunsShareTheGpu) {
  TrainRequest request = a_request();
  EXPECT_EQ(training_cost(request, {}).sharing, 1);
  request.sharing = 3;
  EXPECT_EQ(training_cost(request, {}).sharing, 3);
  request.sharing = 1;  // alone at its end
  EXPECT_EQ(training_cost(request, {.sharing = 4}).sharing, 4);
}

}  // namespace
}  // namespace lra
