// Steps that are recorded once and repeated give what steps one by one do, on a device that stands
// in for a GPU.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "harness/steps/execution.h"
#include "harness/training/checkpoint.h"
#include "tests/harness/steps/step_fixture.h"

namespace lra {
namespace {

class StepGraphTest : public testing::Test {
 protected:
  void SetUp() override { graph_counts() = {}; }

  // Samples that fill the length and samples that do not.
  Split padded_and_full() const {
    SplitWriter writer(1);
    for (int64_t i = 0; i < 16; ++i) {
      const std::vector<uint16_t> ids(i < 8 ? 128 : 40, static_cast<uint16_t>(1 + i % 14));
      writer.tokens(ids);
      writer.label(i % 10);
    }
    const auto path = scratch_.path() / "both.safetensors";
    writer.write(path, task("listops").vocabulary);
    return Split(path, 1, 10, task("listops").vocabulary);
  }

  Scratch scratch_;
  Split split_ = random_split(task("listops"), scratch_.path() / "split.safetensors", 40);
};

TEST_F(StepGraphTest, LossesAreThoseOfStepsOneByOne) {
  // Dropout, clipping and a learning rate that changes with every step.
  for (const char* attention : {"standard", "nystrom[num_landmarks=8]", "reformer"}) {
    for (const char* parts : {"training.micro_batch=0", "training.micro_batch=2"}) {
      SCOPED_TRACE(std::string(attention) + ", " + parts);
      const Config config =
          step_config("listops", attention, {parts, "optimizer.weight_decay=0.1"});
      graph_counts() = {};
      // One after the other: both draw from the same generator, which a new run seeds.
      const auto losses = [&](StepRun&& run) {
        std::vector<double> sums;
        for (int64_t steps : {2, 3, 1, 9}) sums.push_back(run.loss_after(steps));
        sums.push_back(static_cast<double>(run.at().window_correct));
        EXPECT_EQ(run.learner().execution().graph, graph_counts().captures > 0);
        return sums;
      };
      const std::vector<double> eager = losses({config, split_, recorded_device()}),
                                graph = losses(
                                    {config, split_, recorded_device(), make_recorded_graph});
      for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(graph[i], eager[i], 1e-5 * eager[i]);
      EXPECT_EQ(graph_counts().warm_ups, GraphedSteps::kWarmUps);
      EXPECT_EQ(graph_counts().captures, 1);
      EXPECT_EQ(graph_counts().replays, 15 - GraphedSteps::kWarmUps);
    }
  }
}

TEST_F(StepGraphTest, PaddedAndFullBatchesHaveARecordingEach) {
  const Split both = padded_and_full();
  const Config config = step_config("listops", "standard", {"training.batch=1"});
  const double expected = StepRun(config, both, recorded_device()).loss_after(24);
  StepRun graph(config, both, recorded_device(), make_recorded_graph);
  EXPECT_NEAR(graph.loss_after(24), expected, 1e-5 * expected);
  EXPECT_EQ(graph_counts().captures, 2);
  EXPECT_EQ(graph_counts().warm_ups, 2 * GraphedSteps::kWarmUps);
}

// What its operator reads on the host changes with every step, or differs between parameters; the
// batches are of two shapes, whose recordings have gradients of their own.
TEST_F(StepGraphTest, TheOptimizerStaysOutsideWhereItReadsOnTheHost) {
  const Split both = padded_and_full();
  const std::vector<std::vector<std::string>> cases = {
      {"schedule.beta1_low=0.5", "schedule.beta1_high=0.95"},
      {R"(optimizer.groups=[{"match":["tokens.*"],"lr":0.01,"weight_decay":0.1}])"}};
  for (std::vector<std::string> sets : cases) {
    SCOPED_TRACE(sets.front());
    sets.emplace_back("training.batch=1");
    sets.emplace_back("optimizer.lr=0.003");
    const Config config = step_config("listops", "nystrom[num_landmarks=8]", sets);
    const auto after = [&](StepRun&& run) {
      std::vector<double> sums;
      for (int64_t steps : {9, 8, 15}) sums.push_back(run.loss_after(steps));
      for (const torch::Tensor& parameter : run.learner().model().parameters())
        sums.push_back(parameter.cpu().abs().sum().item<double>());
      return sums;
    };
    const std::vector<double> expected = after({config, both, recorded_device()});
    graph_counts() = {};
    const std::vector<double> found = after({config, both, recorded_device(), make_recorded_graph});
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << i;
    EXPECT_EQ(graph_counts().captures, 2);
    EXPECT_EQ(graph_counts().replays, 32 - 2 * GraphedSteps::kWarmUps);
  }
}

TEST_F(StepGraphTest, AResumedRunGoesOnAsBefore) {
  const Config config = step_config("listops", "nystrom[num_landmarks=8]");
  const double expected =
      StepRun(config, split_, recorded_device(), make_recorded_graph).loss_after(14);
  StepRun first(config, split_, recorded_device(), make_recorded_graph);
  first.loss_after(7);
  const json identity = config_identity(config.to_json());
  const auto path = scratch_.path() / "checkpoint.safetensors";
  save_checkpoint(path, identity, first.at(), first.learner().model(), &first.learner().optimizer(),
                  recorded_device());
  StepRun second(config, split_, recorded_device(), make_recorded_graph);
  second.at() = load_checkpoint(path, identity, second.learner().model(),
                                &second.learner().optimizer(), recorded_device());
  second.go_on(recorded_device());
  EXPECT_NEAR(second.loss_after(7), expected, 1e-5 * expected);
  for (const auto& [parameter, state] : second.learner().optimizer().state())
    EXPECT_EQ(static_cast<const torch::optim::AdamWParamState&>(*state).step(), 14);
}

TEST_F(StepGraphTest, ARunOfTheCpuGoesOnOnADevice) {
  const Config config = step_config("listops", "nystrom[num_landmarks=8]", {"model.dropout=0"});
  StepRun whole(config, split_, torch::kCPU), first(config, split_, torch::kCPU);
  const double expected = whole.loss_after(9);
  first.loss_after(5);
  const json identity = config_identity(config.to_json());
  const auto path = scratch_.path() / "checkpoint.safetensors";
  save_checkpoint(path, identity, first.at(), first.learner().model(), &first.learner().optimizer(),
                  torch::kCPU);
  StepRun second(config, split_, recorded_device());
  second.at() = load_checkpoint(path, identity, second.learner().model(),
                                &second.learner().optimizer(), recorded_device());
  for (const torch::Tensor& parameter : second.learner().model().parameters())
    EXPECT_EQ(parameter.device(), recorded_device());
  for (const auto& [parameter, state] : second.learner().optimizer().state()) {
    const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*state);
    EXPECT_EQ(moments.exp_avg().device(), recorded_device());
    EXPECT_EQ(moments.exp_avg_sq().device(), recorded_device());
  }
  second.go_on(recorded_device());
  EXPECT_NEAR(second.loss_after(4), expected, 1e-4 * expected);
}

TEST_F(StepGraphTest, WhatCannotBeRecordedRunsOneByOneAndSaysWhy) {
  const auto text = [&](const Config& config, torch::Device device, int64_t processes = 1,
                        bool has_graphs = true) {
    seed_generators(0);
    const Model model(task("listops"), config);
    return step_execution(config, model, device, processes, has_graphs).text();
  };
  const Config plain = step_config("listops", "nystrom[num_landmarks=8]");
  EXPECT_EQ(text(plain, recorded_device()), "graph");
  EXPECT_EQ(text(plain, torch::kCPU), "eager (on a CPU)");
  EXPECT_EQ(text(plain, recorded_device(), 2), "eager (several processes exchange gradients)");
  EXPECT_EQ(text(plain, recorded_device(), 1, false),
            "eager (this program was built without CUDA graphs)");
  EXPECT_EQ(text(step_config("listops", "standard", {"execution=eager"}), recorded_device()),
            "eager (as set)");
  EXPECT_EQ(text(step_config("listops", "standard",
                             {"schedule.beta1_low=0.85", "schedule.beta1_high=0.95"}),
                 recorded_device()),
            "graph but for the optimizer (the schedule changes beta1)");
  EXPECT_EQ(text(step_config("listops", "standard",
                             {R"(optimizer.groups=[{"match":["tokens.*"],"lr":0.01}])"}),
                 recorded_device()),
            "graph but for the optimizer (groups of parameters have settings of their own)");
  EXPECT_EQ(text(step_config("listops", "performer[redraw_interval=2]"), recorded_device()),
            "eager (performer decides on the host in each step)");
  EXPECT_EQ(text(step_config("listops", "nystrom[num_landmarks=8,pinv=exact]"), recorded_device()),
            "eager (nystrom decides on the host in each step)");
}

// LibTorch's allocator and generators do not come back from one (pytorch#180395, #190348).
TEST_F(StepGraphTest, ARecordingThatFailsIsAnErrorThatSaysWhatToDo) {
  int64_t steps = 0;
  const torch::Tensor sum = torch::zeros({}).to(recorded_device());
  const auto work = [&](const Batch& batch) {
    ++steps;
    sum.add_(batch.tokens.sum());
    batch.labels.sum().item<int64_t>();
  };
  GraphedSteps graphed(recorded_device(), make_recorded_graph,
                       {.run = work,
                        .record =
                            [&](const Batch& batch) {
                              work(batch);
                              return std::vector<torch::Tensor>();
                            },
                        .before_replay = [] {},
                        .after_replay = [](const auto&) {}});
  const auto there = [](const torch::Tensor& t) { return t.to(recorded_device()); };
  const Batch batch{.tokens = there(torch::ones({2, 1, 4}, torch::kInt64)),
                    .mask = there(torch::ones({2, 1, 4}, torch::kBool)),
                    .labels = there(torch::zeros({2}, torch::kInt64)),
                    .index = {}};
  for (int64_t i = 1; i < GraphedSteps::kWarmUps; ++i) graphed.run(batch);
  const std::string said = error_text([&] { graphed.run(batch); });
  EXPECT_NE(said.find("_local_scalar_dense"), std::string::npos) << said;
  EXPECT_NE(said.find("--set execution=eager"), std::string::npos) << said;
  EXPECT_EQ(steps, GraphedSteps::kWarmUps + 1) << "the last was not recorded";
  EXPECT_EQ(sum.item<float>(), GraphedSteps::kWarmUps * 8);
}

TEST_F(StepGraphTest, SeedsOfARecordingAreThoseThatDropoutsWouldDraw) {
  ops::SeedTape tape(torch::kCPU);
  EXPECT_EQ(ops::SeedTape::current(), nullptr);
  std::vector<const uint64_t*> places;
  {
    const ops::SeedTape::Recording recording(tape);
    ASSERT_EQ(ops::SeedTape::current(), &tape);
    for (int64_t i = 0; i < 3; ++i) places.push_back(tape.next());
  }
  EXPECT_EQ(ops::SeedTape::current(), nullptr);
  std::vector<uint64_t> expected, found;
  const auto draw_both = [&] {
    const torch::Tensor state = at::globalContext().defaultGenerator(torch::kCPU).get_state();
    auto generator = at::globalContext().defaultGenerator(torch::kCPU);
    for (int64_t i = 0; i < 3; ++i)
      expected.push_back(generator.get<at::CPUGeneratorImpl>()->random64());
    generator.set_state(state);
    tape.draw();
    for (const uint64_t* place : places) found.push_back(*place);
  };
  draw_both();
  draw_both();
  EXPECT_EQ(found, expected);
  EXPECT_NE(found[0], found[3]);
}

}  // namespace
}  // namespace lra
