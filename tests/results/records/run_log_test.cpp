#include "results/records/run_log.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "tests/support/scratch.h"

namespace lra {
namespace {

std::string line(int64_t step, LogSplit split, double accuracy = 0.5, double seconds = 1) {
  return make_log_line({.step = step,
                        .split = split,
                        .loss = 0.25,
                        .accuracy = accuracy,
                        .learning_rate = 0.001,
                        .seconds = seconds});
}

TEST(RunLog, ALineHoldsItsKeysInTheirOrder) {
  EXPECT_EQ(line(3, LogSplit::train),
            R"({"step":3,"split":"train","loss":0.25,"accuracy":0.5,"learning_rate":0.001,)"
            R"("seconds":1.0})"
            "\n");
}

TEST(RunLog, TheTimeOfDayMayBeMissing) {
  std::string reason;
  const auto before = parse_run_log(line(3, LogSplit::train), reason);
  ASSERT_EQ(before.size(), 1u);
  EXPECT_FALSE(before[0].time);
  const std::string text = make_log_line({.step = 3, .seconds = 2, .time = 1.7e9 + 0.25});
  EXPECT_TRUE(text.ends_with(R"("seconds":2.0,"time":1700000000.25})"
                             "\n"))
      << text;
  EXPECT_EQ(parse_run_log(text, reason).at(0).time, 1.7e9 + 0.25);
  EXPECT_EQ(reason, "");
  EXPECT_NEAR(time_of_day(), static_cast<double>(std::time(nullptr)), 2);
}

TEST(RunLog, IsCutToWhatTheRunHasBehindIt) {
  const std::string train = line(10, LogSplit::train), dev = line(10, LogSplit::dev),
                    later = line(20, LogSplit::train);
  const std::string all = train + dev + later + R"({"step":5,"spl)";
  EXPECT_EQ(cut_run_log(all, 10, /*pending=*/false), train + dev);
  EXPECT_EQ(cut_run_log(all, 10, /*pending=*/true), train) << "dev is evaluated again";
  EXPECT_EQ(cut_run_log(all, 20, /*pending=*/true), train + dev + later);
  EXPECT_EQ(cut_run_log(all, 9, /*pending=*/false), "");
}

TEST(RunLog, FindsTheFirstLostEvaluation) {
  const auto dev = [](int64_t step) { return LogLine{.step = step, .split = LogSplit::dev}; };
  const std::vector<LogLine> whole = {
      dev(20), {.step = 30, .split = LogSplit::train}, dev(40), dev(50)};  // the last step
  EXPECT_EQ(lost_evaluation(whole, {20, 50}, 50), std::nullopt);
  EXPECT_EQ(lost_evaluation(whole, {20, 70}, 60), 60);
  EXPECT_EQ(lost_evaluation(whole, {10, 50}, 50), 10);
  EXPECT_EQ(lost_evaluation(whole, {10, 50}, 9), std::nullopt);
  EXPECT_EQ(lost_evaluation(std::span(whole).first(3), {20, 50}, 50), 50) << "after the last step";
  EXPECT_EQ(lost_evaluation({}, {20, 50}, 50), 20);
  EXPECT_EQ(lost_evaluation({}, {80, 50}, 50), 50) << "the only one";
  EXPECT_EQ(lost_evaluation({}, {}, 50), std::nullopt) << "not known";
}

std::vector<LogLine> evaluations(const std::vector<double>& accuracies) {
  std::vector<LogLine> log;
  for (const double accuracy : accuracies) {
    const auto step = static_cast<int64_t>(100 * (log.size() / 2 + 1));
    log.push_back({.step = step, .split = LogSplit::train, .accuracy = 0.9});
    log.push_back({.step = step, .split = LogSplit::dev, .accuracy = accuracy});
  }
  return log;
}

TEST(RunLog, LeavesTheMajorityWhereTwoEvaluationsLieAboveIt) {
  // Wilson's interval of 0.2 on 2000 reaches down to 0.183, that of 0.19 to 0.173.
  EXPECT_EQ(left_majority_at(evaluations({0.17, 0.19, 0.2, 0.25, 0.17}), 0.18, 2000), 300);
  EXPECT_EQ(left_majority_at(evaluations({0.17, 0.2, 0.17, 0.17}), 0.18, 2000), std::nullopt);
  EXPECT_EQ(left_majority_at(evaluations({0.2, 0.17, 0.2, 0.2}), 0.18, 2000), 300);
  EXPECT_EQ(left_majority_at(evaluations({0.17, 0.17, 0.25}), 0.18, 2000), 300) << "the last";
  EXPECT_EQ(left_majority_at(evaluations({0.2, 0.2}), 0.18, 100), std::nullopt)
      << "few examples have wide intervals";
  EXPECT_EQ(left_majority_at({}, 0.18, 2000), std::nullopt);
}

TEST(MetricsTailTest, ReadsTheEndOfALongLog) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "metrics.jsonl";
  EXPECT_EQ(read_log_tail(path).step, 0);
  EXPECT_EQ(read_log_tail(scratch.path()).step, 0) << "a folder";
  std::ofstream file(path);
  for (int64_t step = 1; step <= 20000; ++step) {
    // It became twice as fast at half of the way.
    const double seconds = step <= 10000 ? 0.2 * static_cast<double>(step)
                                         : 2000 + 0.1 * static_cast<double>(step - 10000);
    file << line(step, LogSplit::train, 0.5, seconds);
  }
  file.close();
  const LogTail tail = read_log_tail(path);
  EXPECT_EQ(tail.step, 20000);
  EXPECT_NEAR(tail.rate, 10, 1e-6) << "lately";
  EXPECT_FALSE(tail.accuracy);
}

// A run that stood still once, or began on a quiet machine.
TEST(MetricsTailTest, TheRateIsOfTheLastLines) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "metrics.jsonl";
  std::ofstream file(path);
  for (int64_t i = 1; i <= 100; ++i)
    file << line(10 * i, LogSplit::train, 0.5, static_cast<double>(i <= 40 ? i : 2 * i + 500));
  file.close();
  EXPECT_NEAR(read_log_tail(path).rate, 5, 1e-9);
}

TEST(MetricsTailTest, OfAShortLogCountsFromTheStart) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "metrics.jsonl";
  std::ofstream(path) << line(10, LogSplit::train, 0.5, 5) << line(10, LogSplit::dev, 0.75, 5)
                      << line(20, LogSplit::train, 0.5, 10) << R"({"step":30)";
  const LogTail tail = read_log_tail(path);
  EXPECT_EQ(tail.step, 20);
  EXPECT_EQ(tail.accuracy, 0.75);
  EXPECT_NEAR(tail.rate, 2, 1e-9);
}

}  // namespace
}  // namespace lra
