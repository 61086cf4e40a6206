// What a checkpoint holds, and what its digest costs.
#include "harness/training/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "attention_variants/base/files.h"
#include "harness/measure/machine_watch.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

// The peak of this process's resident memory becomes what is resident now; false where the system
// refuses.
bool reset_process_peak() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  return out.good();
}

TEST(CheckpointDigest, IsMadeWithoutACopyOfTheState) {
  Config config = toy_config("standard");
  config.settings.model.feed_forward = 1 << 20;
  const Model model(toy_task(1), config);
  double mib = 0;
  for (const torch::Tensor& parameter : model.parameters())
    mib += static_cast<double>(parameter.nbytes()) / (1 << 20);
  ASSERT_GT(mib, 100);
  state_sha256(model);  // what the first call alone takes
  if (!reset_process_peak()) GTEST_SKIP() << "the peak of this process cannot be reset here";
  const double before = measure::process_peak_mib().value();
  const std::string digest = state_sha256(model);
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_LT(measure::process_peak_mib().value() - before, mib / 8);
}

std::vector<torch::Tensor> parameters_of(const Model& model) {
  std::vector<torch::Tensor> all;
  for (const auto& item : model.named_parameters()) all.push_back(item.value());
  return all;
}

// As those of an attention that has one it never reads.
TEST(Checkpoint, AParameterThatNoStepHasReachedComesBackWithoutMoments) {
  const Scratch scratch;
  const std::filesystem::path file = scratch.path() / "checkpoint.safetensors";
  const json config = {{"task", "toy"}};
  Model saved(toy_task(1), toy_config("standard")), loaded(toy_task(1), toy_config("standard"));
  torch::optim::AdamW before(parameters_of(saved)), after(parameters_of(loaded));
  const std::vector<torch::Tensor> own = parameters_of(saved);
  for (size_t i = 1; i < own.size(); ++i)
    torch::Tensor(own[i]).mutable_grad() = torch::ones_like(own[i]);
  before.step();
  save_checkpoint(file, config, {.step = 1}, saved, &before, torch::kCPU);
  EXPECT_EQ(load_checkpoint(file, config, loaded, &after, torch::kCPU).step, 1);
  EXPECT_EQ(after.state().size(), own.size() - 1);
  EXPECT_EQ(after.state().count(parameters_of(loaded)[0].unsafeGetTensorImpl()), 0u);
}

TEST(Checkpoint, WhatItSaysOfItsRunIsHeldToItsDigestToo) {
  const Scratch scratch;
  const std::filesystem::path file = scratch.path() / "checkpoint.safetensors";
  const json config = {{"task", "toy"}};
  Model model(toy_task(1), toy_config("standard"));
  save_checkpoint(file, config, {.step = 21}, model, nullptr, torch::kCPU);
  const std::string whole = read_file(file);
  const auto loaded = [&] {
    return load_checkpoint(file, config, model, nullptr, torch::kCPU).step;
  };
  EXPECT_EQ(loaded(), 21);
  // A bit of a digit: of the step 21, and of the digest of the tensors.
  for (const std::string& digit : {std::string("\\\"step\\\":2"), std::string("\"sha256\":\"")}) {
    const size_t at = whole.find(digit);
    ASSERT_NE(at, std::string::npos) << digit;
    std::string flipped = whole;
    char& changed = flipped[at + digit.size() - (digit.back() == '2' ? 1 : 0)];
    changed = changed == '6' ? '2' : '6';
    std::ofstream(file, std::ios::binary) << flipped;
    try {
      loaded();
      ADD_FAILURE() << digit << " is taken";
    } catch (const UsageError& error) {
      ADD_FAILURE() << error.what();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(file.string() + " is damaged: "), std::string::npos)
          << error.what();
    }
  }
  // An older one says nothing of that.
  std::ofstream(file, std::ios::binary) << whole;
  TensorFile earlier = read_tensors(file);
  ASSERT_EQ(earlier.metadata.erase("metadata_sha256"), 1u);
  write_tensors(file, earlier, Links::replace);
  EXPECT_EQ(loaded(), 21);
  earlier.metadata["progression"].replace(earlier.metadata["progression"].find("21"), 2, "\"x\"");
  write_tensors(file, earlier, Links::replace);
  try {
    loaded();
    ADD_FAILURE() << "it is no number";
  } catch (const UsageError& error) {
    ADD_FAILURE() << "no option is wrong: " << error.what();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step should be an integer"), std::string::npos);
  }
}

TEST(RepeatablePass, PutsBuffersAndRandomStatesBack) {
  Model model(toy_task(1), toy_config("performer[redraw=forward]"));
  const auto state = [&] {
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& buffer : model.buffers()) all.push_back(buffer.clone());
    all.push_back(torch::rand({3}));
    return all;
  };
  const auto same = [](const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
    return std::ranges::equal(a, b,
                              [](const auto& x, const auto& y) { return torch::equal(x, y); });
  };
  torch::manual_seed(5);
  const RepeatablePass pass(model, torch::kCPU);
  const std::vector<torch::Tensor> before = state();
  ASSERT_GT(before.size(), 1u);
  EXPECT_FALSE(same(state(), before)) << "another number is drawn";
  for (torch::Tensor buffer : model.buffers()) buffer.add_(1);
  pass.rewind();
  EXPECT_TRUE(same(state(), before));
}

}  // namespace
}  // namespace lra
