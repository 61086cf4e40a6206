// The emulator of CUDA catches what is planted, and passes the same kernels without it.
#include "tests/cuda_emulator/emulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/cuda_emulator/array.h"
#include "tests/cuda_emulator/faults.h"
#include "tests/cuda_emulator/testing.h"

namespace lra::emulator {
namespace {

constexpr unsigned kThreads = 64;

struct Planted {
  void (*kernel)(faults::Params);
  size_t shared = 0;
  unsigned blocks = 1;

  // y [256] after the kernel, of zeros.
  Array<float> run(bool faulty) const {
    const Array<float> x(random_values(kThreads, 1));
    Array<float> y(std::vector<float>(kThreads, 0));
    const faults::Params params{x.data(), y.data(), static_cast<int>(kThreads), faulty};
    ops::cuda::launch(kernel, {blocks}, {kThreads}, shared, nullptr, params);
    y.check_zones();
    return y;
  }

  // The Fault of the faulty one; of the other there is none.
  std::string fault() const {
    try {
      run(false);
    } catch (const Fault& none) {
      return std::string("without the fault: ") + none.what();
    }
    try {
      run(true);
    } catch (const Fault& fault) {
      return fault.what();
    }
    return "none";
  }
};

void expect_fault(const Planted& planted, const std::string& text) {
  const std::string found = planted.fault();
  EXPECT_NE(found.find(text), std::string::npos) << found;
  EXPECT_EQ(found.find("without the fault"), std::string::npos) << found;
}

constexpr size_t kShared = kThreads * sizeof(float);

TEST(EmulatorFaults, ABarrierThatAWarpDoesNotReach) {
  expect_fault({faults::divergent_barrier},
               "32 of 64 have returned");  // and who waits where
  expect_fault({faults::divergent_barrier}, "thread 0 waits in __syncthreads (");
}
TEST(EmulatorFaults, BarriersThatDiffer) {
  expect_fault({faults::different_barriers}, "threads of a block wait at different barriers");
}
TEST(EmulatorFaults, AShuffleThatALaneDoesNotReach) {
  expect_fault({faults::divergent_shuffle}, "waits in __shfl_xor_sync (");
}
TEST(EmulatorFaults, ShufflesThatDiffer) {
  expect_fault({faults::different_shuffles}, "lanes of a warp are in different collectives");
}
TEST(EmulatorFaults, TooMuchSharedMemory) {
  expect_fault({faults::too_much_shared, kShared}, "of the 256 bytes of its launch");
}
TEST(EmulatorFaults, PartsOfSharedMemoryThatDiffer) {
  expect_fault({faults::different_parts, kShared}, "threads take different parts");
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends the program: tests/checks/cuda_faults
TEST(EmulatorFaults, AWritePastSharedMemory) {
  expect_fault({faults::write_past_shared, 2 * kShared}, "past a part of its shared memory");
}
TEST(EmulatorFaults, AWritePastAnArray) {
  expect_fault({faults::write_past_array}, "writes beside an array");
}
TEST(EmulatorFaults, AReadPastSharedMemoryIsNaN) {
  const Planted planted{faults::read_past_shared, kShared};
  EXPECT_EQ(planted.run(false)[kThreads - 1], 1);
  EXPECT_TRUE(std::isnan(planted.run(true)[kThreads - 1]));
}
#endif

TEST(EmulatorFaults, AReadPastAnArrayIsNaN) {
  const Planted planted{faults::read_past_array};
  EXPECT_FALSE(std::isnan(planted.run(false)[kThreads - 1]));
  EXPECT_TRUE(std::isnan(planted.run(true)[kThreads - 1]));
}

TEST(EmulatorFaults, WhatWasNeverWrittenIsNaNEvenInAMaximum) {
  const Planted planted{faults::unwritten_shared, kShared};
  for (const float y : planted.run(false)) EXPECT_FALSE(std::isnan(y));
  for (const float y : planted.run(true)) EXPECT_TRUE(std::isnan(y));
}

void expect_order_matters(const Planted& planted) {
  EXPECT_TRUE(same_in_every_order([&] { return planted.run(false); }));
  EXPECT_FALSE(same_in_every_order([&] { return planted.run(true); }));
}
TEST(EmulatorFaults, AnOrderOfBlocks) { expect_order_matters({faults::order_of_blocks, 0, 5}); }
TEST(EmulatorFaults, AnOrderOfThreads) { expect_order_matters({faults::order_of_threads}); }
TEST(EmulatorFaults, ABarrierThatIsMissing) {
  expect_order_matters({faults::missing_barrier, kShared});
}
TEST(EmulatorFaults, ABarrierOfAWarpWhereTheBlockHasMore) {
  expect_order_matters({faults::barrier_of_a_warp, kShared});
}

TEST(Emulator, RunsAfterAFaultAsBefore) {
  const Planted faulty{faults::divergent_barrier}, sound{faults::missing_barrier, kShared};
  const Array<float> before = sound.run(false);
  EXPECT_THROW(faulty.run(true), Fault);
  const Array<float> after = sound.run(false);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
}

TEST(Emulator, RefusesWhatAGpuRefuses) {
  const auto launch = [](const ops::cuda::Dim3& grid, const ops::cuda::Dim3& block, size_t shared) {
    ops::cuda::launch(faults::divergent_barrier, grid, block, shared, nullptr, faults::Params{});
  };
  EXPECT_THROW(launch({1}, {48}, 0), std::invalid_argument);
  EXPECT_THROW(launch({1}, {2048}, 0), std::invalid_argument);
  EXPECT_THROW(launch({0}, {32}, 0), std::invalid_argument);
  EXPECT_THROW(launch({1, 65536}, {32}, 0), std::invalid_argument);
  EXPECT_THROW(launch({1}, {32}, 164 * 1024), std::invalid_argument);
}

TEST(Emulator, CountsLaunches) {
  const int64_t before = launches();
  Planted{faults::missing_barrier, kShared, 7}.run(false);
  EXPECT_EQ(launches(), before + 1);
}

// Which threads of which blocks there are, in three dimensions.
struct WhoParams {
  int* seen;  // [2,3,4, 2,4,8] of blocks, then threads
};
void who(WhoParams p) {
  const auto number = [](const Index& at, const Index& of) {
    return (at.z * of.y + at.y) * of.x + at.x;
  };
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  p.seen[number(blockIdx, gridDim) * threads + number(threadIdx, blockDim)] += 1;
}
TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  Array<int> seen(std::vector<int>(24 * 64, 0));
  ops::cuda::launch(who, {4, 3, 2}, {8, 4, 2}, 0, nullptr, WhoParams{seen.data()});
  for (const int times : seen) EXPECT_EQ(times, 1);
}

// What each collective gives a lane.
struct CollectiveParams {
  int* y;  // [8,32]
};
void collectives(CollectiveParams p) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto put = [&](int which, int value) { p.y[which * 32 + lane] = value; };
  put(0, __shfl_sync(kFullWarp, lane, 35));
  put(1, __shfl_xor_sync(kFullWarp, lane, 5));
  put(2, __shfl_down_sync(kFullWarp, lane, 3));
  put(3, __shfl_up_sync(kFullWarp, lane, 3));
  put(4, static_cast<int>(__ballot_sync(kFullWarp, lane % 2 == 1)));
  put(5, __any_sync(kFullWarp, lane == 7) ? 1 : 0);
  put(6, __all_sync(kFullWarp, lane != 7) ? 1 : 0);
  put(7, static_cast<int>(__shfl_xor_sync(kFullWarp, int64_t{lane} << 40, 1) >> 40));
}
TEST(Emulator, ShufflesAsAGpu) {
  Array<int> y(8 * 32);
  ops::cuda::launch(collectives, {1}, {32}, 0, nullptr, CollectiveParams{y.data()});
  for (int lane = 0; lane < 32; ++lane) {
    const int expected[8] = {3,
                             lane ^ 5,
                             lane + 3 < 32 ? lane + 3 : lane,
                             lane >= 3 ? lane - 3 : lane,
                             static_cast<int>(0xAAAAAAAA),
                             1,
                             0,
                             lane ^ 1};
    for (int which = 0; which < 8; ++which)
      EXPECT_EQ(y[which * 32 + lane], expected[which]) << which << ", " << lane;
  }
}

}  // namespace
}  // namespace lra::emulator
