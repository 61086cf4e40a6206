#include "harness/steps/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "attention_variants/base/files.h"

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

// tests/parity/make_protocol_fixtures.py made it from optax's schedules and from LRA's formula.
TEST(ScheduleTest, EqualsThePeersThatWarmUp) {
  const json fixture = read_json(LRA_SOURCE_DIR "/tests/fixtures/schedules.json");
  std::set<std::string> kinds;
  for (const json& item : fixture["cases"]) {
    const OptimizerOptions optimizer{.lr = item["lr"]};
    const ScheduleOptions schedule{
        .kind = *parse_name<ScheduleKind>(item["kind"].get<std::string>()),
        .warmup = item["warmup"],
        .decay_every = item["decay_every"],
        .decay_factor = item["decay_factor"]};
    kinds.insert(to_string(schedule.kind));
    const std::vector<double> points = item["points"];
    ASSERT_EQ(std::ssize(points), item["steps"].get<int64_t>());
    for (int64_t step = 0; step < std::ssize(points); ++step) {
      const SchedulePoint point = schedule_at(step, item["steps"], optimizer, schedule);
      EXPECT_NEAR(point.lr, points[static_cast<size_t>(step)], 1e-12 * optimizer.lr)
          << to_string(schedule.kind) << " " << schedule.warmup << " step " << step;
      EXPECT_EQ(point.beta1, optimizer.beta1);
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"constant", "cosine", "rsqrt", "step"}));
}

// Of tay2020: what its formulas give at single steps, worked out by hand.
TEST(ScheduleTest, HasTheRatesOfTay2020) {
  const Protocol protocol = load_protocol("tay2020");
  const auto lr = [&](const char* task, int64_t step) {
    const Settings s = task_settings(protocol, task);
    return schedule_at(step, s.training.steps, s.optimizer, s.schedule).lr;
  };
  EXPECT_EQ(lr("listops", 0), 0);
  EXPECT_NEAR(lr("listops", 1000), 0.05 / std::sqrt(1000), 1e-15);
  EXPECT_NEAR(lr("listops", 4000), 0.05 / std::sqrt(4000), 1e-15);
  EXPECT_NEAR(lr("retrieval", 4999), 0.05 * 4999 / 8000 / std::sqrt(8000), 1e-15);
  for (int64_t step = 100; step < 5000; step += 100)
    EXPECT_GT(lr("retrieval", step), lr("retrieval", step - 100)) << "its warm-up outlasts the run";
  EXPECT_NEAR(lr("image", 175), 5e-4, 1e-15);
  EXPECT_NEAR(lr("image", 175 + 17500), 2.5e-4, 1e-15);
  EXPECT_NEAR(lr("pathfinder", 156), 5e-4, 1e-15);
}

// The formulas of transformers' get_cosine_schedule_with_warmup, of S5's train_helpers.py (whose
// loop is below) and of
// fairseq's polynomial decay, as those have them.
TEST(ScheduleTest, EndsWithTheRunAsLaterRecipesHaveIt) {
  const OptimizerOptions optimizer{.lr = 0.01};
  const double pi = std::acos(-1.0);
  for (const auto& [steps, warmup] : {std::pair<int64_t, int64_t>{50, 10}, {50, 0}, {7, 6}}) {
    const double t = static_cast<double>(steps), w = static_cast<double>(warmup);
    const auto lr = [&, steps = steps, warmup = warmup](ScheduleKind kind, int64_t step) {
      return schedule_at(step, steps, optimizer,
                         {.kind = kind, .warmup = warmup, .start_divisor = 1e5, .power = 2})
          .lr;
    };
    for (int64_t step = 0; step < steps; ++step) {
      const double s = static_cast<double>(step);
      const double cosine =
          s < w ? s / std::max(1.0, w)
                : std::max(0.0, 0.5 * (1 + std::cos(pi * 0.5 * 2.0 * (s - w) / (t - w))));
      EXPECT_NEAR(lr(ScheduleKind::cosine_end, step), 0.01 * cosine, 1e-15) << step;
      const double count = std::min(s, t - w);
      const double s5 = s < w ? (s + 1) / w : 0.5 * (1 + std::cos(pi * count / (t - w)));
      EXPECT_NEAR(lr(ScheduleKind::cosine_offset, step), 0.01 * s5, 1e-15) << step;
      // Mega's step_update(): the power is that of the warm-up.
      const double power =
          s < w ? 1e-7 + s * s * (0.01 - 1e-7) / (w * w) : (t - s) * 0.01 / (t - w);
      EXPECT_NEAR(lr(ScheduleKind::power, step), power, 1e-15) << step;
    }
  }
}

// The loop of lindermanlab/S5: train_epoch() takes a step and sets the rate of the next one by the
// count of those before it; an epoch of warm-up has linear_warmup, the others cosine_annealing.
TEST(ScheduleTest, TheLateCosineIsThatOfS5sTrainingLoop) {
  const int64_t epochs = 5, steps_per_epoch = 10, warmup_end = 1;
  const double base = 0.01, pi = std::acos(-1.0);
  double rate = base;  // create_train_state()
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (int64_t batch = 0; batch < steps_per_epoch; ++batch) {
      const ScheduleOptions schedule{.kind = ScheduleKind::cosine_late,
                                     .warmup = warmup_end * steps_per_epoch};
      EXPECT_NEAR(schedule_at(step, epochs * steps_per_epoch, {.lr = base}, schedule).lr, rate,
                  1e-15)
          << step;
      const int64_t end_step =
          steps_per_epoch * (epoch < warmup_end ? warmup_end : epochs - warmup_end);
      const double count = static_cast<double>(std::min(step, end_step)),
                   end = static_cast<double>(end_step);
      rate = epoch < warmup_end ? base * static_cast<double>(step + 1) / end
                                : base * 0.5 * (1 + std::cos(pi * count / end));
      ++step;
    }
  }
}

TEST(ScheduleTest, TheOffsetCosineDoesNotBeginAnewAndRestsAtTheEnd) {
  const ScheduleOptions schedule{.kind = ScheduleKind::cosine_offset, .warmup = 10};
  const auto lr = [&](int64_t step) { return schedule_at(step, 50, {.lr = 1}, schedule).lr; };
  EXPECT_EQ(lr(9), 1);
  EXPECT_LT(lr(10), 0.86);
  for (int64_t step = 40; step < 50; ++step) EXPECT_NEAR(lr(step), 0, 1e-16);
}

TEST(ScheduleTest, BetaStaysWhereItIsNotCycled) {
  const OptimizerOptions optimizer{.beta1 = 0.8};
  for (const int64_t step : {0, 5, 19})
    EXPECT_EQ(schedule_at(step, 20, optimizer, {.warmup = 5}).beta1, 0.8);
}

}  // namespace
}  // namespace lra
