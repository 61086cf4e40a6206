// The meter measures what is known: bytes of a scripted pattern, the duration of a spin.
#include "harness/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "harness/memory.h"

namespace lra {
namespace {

using Clock = std::chrono::steady_clock;

// The counting allocator goes in before any tensor, as in main().
class CountedEnvironment : public testing::Environment {
 public:
  void SetUp() override { install_counting_allocator(); }
};
const auto* const g_counted = testing::AddGlobalTestEnvironment(new CountedEnvironment);

torch::Tensor bytes(int64_t count) { return torch::empty({count}, torch::kUInt8); }

TEST(MemoryTest, CountsEveryByteOfAScriptedPattern) {
  const int64_t start = live_bytes(torch::kCPU);
  reset_peak_bytes(torch::kCPU);
  {
    const auto a = bytes(1000);
    EXPECT_EQ(live_bytes(torch::kCPU) - start, 1000);
    {
      const auto b = bytes(50'000);
      const auto view = b.slice(0, 0, 10);
      EXPECT_EQ(live_bytes(torch::kCPU) - start, 51'000) << "a view is no allocation";
    }
    const auto c = bytes(300);
    EXPECT_EQ(live_bytes(torch::kCPU) - start, 1300);
  }
  EXPECT_EQ(live_bytes(torch::kCPU), start);
  EXPECT_EQ(peak_bytes(torch::kCPU) - start, 51'000);
}

TEST(MemoryTest, CountsAcrossThreads) {
  const int64_t start = live_bytes(torch::kCPU);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 500; ++j) bytes(100 + j);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(live_bytes(torch::kCPU), start);
  torch::Tensor kept;
  std::thread([&] { kept = bytes(777); }).join();
  EXPECT_EQ(live_bytes(torch::kCPU) - start, 777) << "made on one thread, alive on another";
}

TEST(MemoryTest, BeyondTheLimitIsOutOfMemoryNotADeath) {
  set_cpu_memory_limit(live_bytes(torch::kCPU) + 1'000'000);
  EXPECT_NO_THROW(bytes(900'000));
  try {
    bytes(1'100'000);
    ADD_FAILURE() << "no error";
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_out_of_memory(error)) << error.what();
  }
  set_cpu_memory_limit(0);
  EXPECT_FALSE(is_out_of_memory(std::runtime_error("something else")));
}

TEST(MeasureTest, KnowsTheDurationOfASpinAndItsBytes) {
  const Measurement m = measure(
      [] {
        // The spin ends at a time set before, so that the allocation is within the known duration.
        const auto end = Clock::now() + std::chrono::milliseconds(5);
        bytes(2'000'000);
        while (Clock::now() < end) {
        }
      },
      torch::kCPU, {.seconds = 1});
  EXPECT_NEAR(m.time.min, 5.0, 5.0 * 0.02);
  EXPECT_GE(m.time.median, 5.0);
  EXPECT_EQ(m.peak_bytes, 2'000'000);
  EXPECT_GE(m.samples.size(), 6u);
}

TEST(MeasureTest, StopsAtItsTimeWithAFewSamples) {
  const auto begin = Clock::now();
  const Measurement m = measure([] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); },
                                torch::kCPU, {.seconds = 0.05, .fewest = 3});
  EXPECT_GE(m.samples.size(), 3u);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 2.0);
}

}  // namespace
}  // namespace lra
