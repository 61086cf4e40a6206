#include "harness/schedule.h"

#include <gtest/gtest.h>

#include "lra/files.h"

namespace lra {
namespace {

// tests/parity/make_schedule_fixture.py made it from torch's OneCycleLR, whose default cycles beta1
// too.
TEST(ScheduleTest, EqualsTorchsOneCycle) {
  const json fixture = read_json(LRA_SOURCE_DIR "/tests/fixtures/one_cycle.json");
  ASSERT_FALSE(fixture["cases"].empty());
  for (const json& item : fixture["cases"]) {
    const OptimizerOptions optimizer{.lr = item["lr"]};
    const ScheduleOptions schedule{.warmup = item["warmup"], .beta1_low = 0.85, .beta1_high = 0.95};
    for (size_t step = 0; step < item["points"].size(); ++step) {
      const SchedulePoint point =
          schedule_at(static_cast<int64_t>(step), item["steps"], optimizer, schedule);
      const double lr = item["points"][step][0], beta1 = item["points"][step][1];
      EXPECT_NEAR(point.lr, lr, 1e-12 * optimizer.lr + 1e-9 * lr)
          << item["warmup"] << " step " << step;
      EXPECT_NEAR(point.beta1, beta1, 1e-12) << item["warmup"] << " step " << step;
    }
  }
}

TEST(ScheduleTest, BetaStaysWhereItIsNotCycled) {
  const OptimizerOptions optimizer{.beta1 = 0.8};
  for (const int64_t step : {0, 5, 19})
    EXPECT_EQ(schedule_at(step, 20, optimizer, {.warmup = 5}).beta1, 0.8);
}

}  // namespace
}  // namespace lra
