// Items that threads take in turn.
#include "attention_variants/ops/cpu/parallel.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/linear.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

TEST(InTurn, EveryItemIsTakenOnceByAThreadThereIs) {
  const RestoredThreads restored;
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    for (const int64_t count : {0, 1, 3, 64, 1000}) {
      std::vector<std::atomic<int>> taken(static_cast<size_t>(count));
      std::vector<std::atomic<int>> busy(static_cast<size_t>(ops::cpu::threads_for(count)));
      std::atomic<int> failures = 0;
      ops::cpu::parallel_for_dynamic(count, [&](int64_t item, int64_t thread) {
        ++taken[static_cast<size_t>(item)];
        std::atomic<int>& own = busy.at(static_cast<size_t>(thread));
        if (++own != 1) ++failures;  // two at once under one number
        --own;
      });
      EXPECT_EQ(failures, 0);
      for (const auto& times : taken) EXPECT_EQ(times, 1) << threads << " " << count;
    }
  }
}

TEST(InTurn, EveryThreadRoundsProductsAsTheCallerDoes) {
  if (omp_get_thread_limit() < 2) GTEST_SKIP() << "OMP_THREAD_LIMIT is 1";
  const RestoredThreads restored;
  at::set_num_threads(2);
  const ops::cpu::GemmPrecisionScope scope(ops::cpu::GemmPrecision::bfloat16);
  std::atomic<int> others = 0;
  std::array<std::atomic<bool>, 2> here{};
  ops::cpu::parallel_for_dynamic(2, [&](int64_t, int64_t thread) {
    here.at(static_cast<size_t>(thread)) = true;
    if (ops::cpu::detail::products != ops::cpu::GemmPrecision::bfloat16) ++others;
    // Neither takes both items.
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!(here[0] && here[1]) && std::chrono::steady_clock::now() < late)
      std::this_thread::yield();
  });
  EXPECT_TRUE(here[0] && here[1]);
  EXPECT_EQ(others, 0);
}

bool keeps_denormals() {
  volatile float number = std::numeric_limits<float>::min();
  return number * 0.5F > 0;
}

TEST(InTurn, DenormalNumbersAreZeroWithinAndWhatTheyWereOutside) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "of x86 processors alone";
#endif
  // A thread of its own starts threads of its own, all of them as they were not before.
  std::thread([] {
    const RestoredThreads restored;
    at::set_num_threads(2);
    at::globalContext().setFlushDenormal(false);
    std::atomic<int> kept = 0;
    ops::cpu::parallel_for_dynamic(8, [&](int64_t, int64_t) { kept += keeps_denormals() ? 1 : 0; });
    EXPECT_EQ(kept, 0);
    std::atomic<int> outside = 0;
    at::parallel_for(0, 2, 1, [&](int64_t, int64_t) { outside += keeps_denormals() ? 1 : 0; });
    EXPECT_GE(outside, 1);
    EXPECT_TRUE(keeps_denormals());
  }).join();
}

// What a training spends its time with: gradients of 1e-30 and weights of 1e-10.
TEST(InTurn, ProductsOfDenormalNumbersAreZero) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "of x86 processors alone";
#endif
  std::thread([] {
    at::globalContext().setFlushDenormal(false);
    const torch::Tensor x = torch::full({2, 300, 64}, 1e-30F);
    const ops::LinearWeights layer{.weight = torch::full({64, 64}, 1e-10F),
                                   .bias = torch::zeros({64})};
    EXPECT_GT(torch::linear(x, layer.weight).min().item<float>(), 0);
    EXPECT_EQ(ops::linear(Kernels::fused, x, nullptr, {layer}).y[0].abs().max().item<float>(), 0);
  }).join();
}

}  // namespace
}  // namespace lra
