// What own kernels say of their work is what the variants' own accounts say.
#include <gtest/gtest.h>

#include "attention_variants/registry.h"
#include "harness/profile/profiler.h"
#include "harness/where/step_recorder.h"

namespace lra::where {
namespace {

class OwnAccountsTest : public testing::TestWithParam<const char*> {
 protected:
  const profile::ProfileCell cell_{.attention = parse_attention(GetParam()),
                                   .length = 256,
                                   .batch = 2,
                                   .heads = 2,
                                   .head_dim = 16};
};

TEST_P(OwnAccountsTest, AddUpToTheVariants) {
  const std::function<void()> attend = profile::call_of(cell_, torch::kCPU);
  attend();  // tables that are drawn once
  StepRecorder recorder(torch::kCPU);
  recorder.record(attend);
  double flops = 0, own = 0;
  for (const auto& [key, sum] : recorder.sums()) {
    const auto& [kind, op, part, pass] = key;
    if (sum.flops < 0) continue;
    flops += sum.flops;
    own += kind == WorkKind::attention ? sum.flops : 0;
  }
  const auto attention = make_attention(
      cell_.attention, {.width = 32, .heads = 2, .head_dim = 16, .max_length = cell_.length});
  EXPECT_EQ(flops, attention->flops(cell_.batch, cell_.length));
  EXPECT_GT(own, 0) << "an own kernel ran";
}

INSTANTIATE_TEST_SUITE_P(Where, OwnAccountsTest,
                         testing::Values("standard", "linear", "performer", "cosformer",
                                         "nystrom[num_landmarks=16]",
                                         "linformer[projected_length=16]", "reformer",
                                         "bigbird[block=16]", "longformer[window=32]",
                                         "local[block=32]", "sparse[block=32,summary=8]",
                                         "sparse[block=32,summary=8,causal=true]"));

}  // namespace
}  // namespace lra::where
