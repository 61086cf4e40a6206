// What a checkpoint's digest costs.
#include "harness/training/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/measure/machine_watch.h"
#include "tests/lra/model/toy_model.h"

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

}  // namespace
}  // namespace lra
