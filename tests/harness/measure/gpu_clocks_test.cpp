// The clocks of a GPU, through a library that is there and through one that is made up.
#include "harness/measure/gpu_clocks.h"

#include <gtest/gtest.h>

#include "attention_variants/torch.h"
#include "harness/host/gpu.h"

namespace lra {
namespace {

unsigned long long g_reasons = 0;

measure::Nvml made_up() {
  return {.init = [] { return 0; },
          .by_bus =
              [](const char* bus, void** gpu) {
                static int one = 0;
                *gpu = &one;
                return std::string(bus) == "0000:3b:00.0" ? 0 : 6;  // not found
              },
          .clock =
              [](void*, unsigned kind, unsigned* mhz) {
                *mhz = kind == 1 ? 1980 : kind == 2 ? 2619 : 0;
                return 0;
              },
          .reasons =
              [](void*, unsigned long long* reasons) {
                *reasons = g_reasons;
                return 0;
              }};
}

TEST(GpuClocks, AreThoseOfTheMultiprocessorsAndOfTheMemory) {
  g_reasons = 0;
  const auto clocks = measure::gpu_clocks(made_up(), "0000:3b:00.0");
  ASSERT_TRUE(clocks.has_value());
  EXPECT_EQ(clocks->mhz, 1980u);
  EXPECT_EQ(clocks->memory_mhz, 2619u);
  EXPECT_EQ(clocks->slowed, "");
  EXPECT_FALSE(measure::gpu_clocks(made_up(), "0000:00:00.0").has_value()) << "another bus";
}

TEST(GpuClocks, SayWhatSlowsTheGpuDown) {
  const auto slowed = [](unsigned long long reasons) {
    g_reasons = reasons;
    return measure::gpu_clocks(made_up(), "0000:3b:00.0").value().slowed;
  };
  EXPECT_EQ(slowed(0x1), "") << "idle";
  EXPECT_EQ(slowed(0x4), "") << "the limit on its power sets the clock under any load";
  EXPECT_EQ(slowed(0x8), "a hardware slowdown");
  EXPECT_EQ(slowed(0x8 | 0x40), "too hot");
  EXPECT_EQ(slowed(0x20), "too hot");
  EXPECT_EQ(slowed(0x8 | 0x80), "an outside power brake");
}

TEST(GpuClocks, AreAbsentWithoutALibraryOrItsFunctions) {
  EXPECT_FALSE(measure::load_nvml("libnothing-of-this-name.so.1").has_value());
  EXPECT_FALSE(measure::load_nvml("libc.so.6").has_value());
}

TEST(GpuClocks, OfTheFirstGpuHere) {
  host::load_cuda();
  if (!torch::cuda::is_available()) {
    EXPECT_FALSE(measure::gpu_clocks(0).has_value());
    GTEST_SKIP() << "no GPU here: what NVIDIA's library says was not tried";
  }
  const auto clocks = measure::gpu_clocks(0);
  ASSERT_TRUE(clocks.has_value());
  EXPECT_GT(clocks->mhz, 0u);
  EXPECT_GT(clocks->memory_mhz, 0u);
}

}  // namespace
}  // namespace lra
