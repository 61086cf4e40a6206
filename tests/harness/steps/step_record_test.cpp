// Whole training steps and evaluations as a GPU would be asked for them: nothing waits for it,
// nothing is on the wrong device, and the number of operators does not grow.
#include <gtest/gtest.h>

#include <fstream>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "harness/training/evaluation.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/harness/steps/step_fixture.h"

namespace lra {
namespace {

const std::filesystem::path kCommitted =
    std::filesystem::path(LRA_SOURCE_DIR) / "tests/fixtures/step-operators.json";

std::string text_of(const std::multiset<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

// The operators of the third step of each variant, by its name with its options.
std::map<std::string, int64_t> step_launches(const std::string& task_name, const Split& split) {
  std::map<std::string, int64_t> launches;
  for (const std::string& name : step_attentions()) {
    SCOPED_TRACE(task_name + ", " + name);
    StepRun run(step_config(task_name, name), split, recorded_device());
    EXPECT_TRUE(run.learner().model().capturable());
    run.step();
    run.step();
    const DeviceRecord record;
    run.step();
    EXPECT_EQ(text_of(record.waits()), "");
    EXPECT_EQ(record.copies_out(), 0);
    EXPECT_EQ(record.copies_in(), 0);
    launches[name] = record.launches();
  }
  return launches;
}

TEST(StepRecord, StepsOfEveryVariantAndTaskWaitForNothingAndGrowNoLonger) {
  const Scratch scratch;
  const json committed = read_json(kCommitted);
  json found;
  for (const Task* known : tasks()) {
    if (known->position_labels) continue;  // a step looks where its labels are
    const Split split = random_split(*known, scratch.path() / (known->name + ".safetensors"), 16);
    found[known->name] = step_launches(known->name, split);
  }
  for (const auto& [task_name, variants] : found.items()) {
    for (const auto& [name, launches] : variants.items()) {
      const json was = committed.value(task_name, json::object()).value(name, json(0));
      EXPECT_LE(launches.get<int64_t>(), was.get<int64_t>()) << task_name << ", " << name;
    }
  }
  if (HasFailure()) std::cout << "counted now:\n" << found.dump(1) << "\n";
}

// Of nystrom by its own kernels, in the sizes of the strict protocol but for the length: 720 with
// LibTorch's operators.
TEST(StepRecord, AStepByOwnKernelsIsAtMost120Launches) {
  const Scratch scratch;
  const Split split = random_split(task("listops"), scratch.path() / "split.safetensors", 16);
  const Config config =
      make_config(load_protocol("lra-strict"), "listops", parse_attention("nystrom"),
                  {"input.length=128", "training.batch=1"}, 0, "float32");
  const ops::cuda::WithHostTable kernels(lra_cuda_kernels(), recorded_device().type());
  StepRun run(config, split, recorded_device());
  run.step();
  const DeviceRecord record;
  const int64_t before = emulator::launches();
  run.step();
  const int64_t own = emulator::launches() - before;
  EXPECT_GT(own, 30);
  EXPECT_LE(own + record.launches(), 120)
      << own << " of own kernels, and " << json(record.calls()).dump();
  EXPECT_EQ(text_of(record.waits()), "");
}

TEST(StepRecord, AnEvaluationReadsOnceAtItsEnd) {
  const Scratch scratch;
  const Task of = task("text");
  const Split split = random_split(of, scratch.path() / "split.safetensors", 11);
  for (const std::string& name : step_attentions()) {
    SCOPED_TRACE(name);
    const Config config = step_config("text", name);
    seed_generators(0);
    Model model(of, config);
    const Evaluation expected = evaluate(model, split, config, torch::kCPU, "dev");
    model.to(recorded_device());
    evaluate(model, split, config, recorded_device(), "dev");
    const DeviceRecord record;
    const Evaluation found = evaluate(model, split, config, recorded_device(), "dev");
    EXPECT_EQ(text_of(record.waits()), "");
    EXPECT_EQ(record.copies_out(), 3) << "losses, predictions, confidence";
    EXPECT_EQ(record.copies_in(), 3 * 3) << "tokens, mask and labels of three batches";
    EXPECT_EQ(found.count, 11);
    EXPECT_EQ(found.lengths, expected.lengths);
    EXPECT_NEAR(found.loss, expected.loss, 1e-4 * std::abs(expected.loss));
  }
}

TEST(StepRecord, LossesAreThoseOfTheCpu) {
  const Scratch scratch;
  const Split split = random_split(task("listops"), scratch.path() / "split.safetensors", 16);
  for (const char* attention : {"standard", "nystrom[num_landmarks=8]", "performer"}) {
    const Config config = step_config("listops", attention, {"model.dropout=0"});
    StepRun on_device(config, split, recorded_device()), on_cpu(config, split, torch::kCPU);
    const double expected = on_cpu.loss_after(6);
    EXPECT_NEAR(on_device.loss_after(6), expected, 1e-4 * expected) << attention;
    EXPECT_EQ(on_device.at().window_count, 24);
  }
}

TEST(StepRecord, BatchesKnownToBeFullTakeAttentionWithoutAMask) {
  const Scratch scratch;
  const Task of = task("listops");
  const Split padded = random_split(of, scratch.path() / "padded.safetensors", 16),
              full = random_split(of, scratch.path() / "full.safetensors", 16, 128);
  std::vector<int64_t> launches;
  for (const Split& split : {padded, full}) {
    StepRun run(step_config("listops", "standard"), split, recorded_device());
    run.step();
    const DeviceRecord record;
    run.step();
    launches.push_back(record.launches());
    EXPECT_EQ(record.calls().contains("aten::masked_fill"), &split == &padded) << "of attention";
  }
  EXPECT_LT(launches[1], launches[0]);
}

// What the records are good for: each fault that they are there for is seen.
TEST(StepRecord, FaultsAreSeen) {
  const torch::Tensor there = torch::ones({4}).to(recorded_device());
  {
    const DeviceRecord record;
    there.sum().item<float>();
    EXPECT_EQ(text_of(record.waits()), "aten::_local_scalar_dense ");
  }
  {
    const DeviceRecord record;
    there.gt(0).nonzero();
    EXPECT_EQ(text_of(record.waits()), "aten::nonzero ");
  }
  {
    const DeviceRecord record;
    there.index({there.gt(0)});
    EXPECT_TRUE(record.waits().contains("aten::nonzero")) << "which an index of true ones takes";
  }
  {
    const DeviceRecord record;
    there.add(torch::ones({4}).to(recorded_device()));
    EXPECT_EQ(record.copies_in(), 1);
    EXPECT_EQ(record.launches(), 2) << "a copy and a sum";
    there.cpu();
    EXPECT_EQ(record.copies_out(), 1);
  }
  EXPECT_THROW(there.add(torch::ones({4})), c10::Error) << "a tensor of the host";
  const Scratch scratch;
  const Split split = random_split(task("listops"), scratch.path() / "split.safetensors", 16);
  StepRun run(step_config("listops", "nystrom[num_landmarks=8,landmarks=random]"), split,
              recorded_device());
  run.step();
  const DeviceRecord record;
  run.step();
  EXPECT_GT(record.copies_in(), 0) << "its numbers are drawn on the host";
  EXPECT_FALSE(run.learner().model().capturable());
}

}  // namespace
}  // namespace lra
