#include "tests/bench/peak.h"

#include <algorithm>
#include <chrono>

#include "attention_variants/ops/cpu/kernels/rows/simd.h"
#include "attention_variants/torch.h"

namespace lra {
namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

constexpr int64_t kSums = 12;  // registers; enough that none waits for its last sum

template <int64_t kWidth>
LRA_INLINE void multiply_add(int64_t times) {
  using Vector = typename ops::cpu::Simd<kWidth>::Vector;
  Vector sum[kSums], factor = Vector{} + 0.5F, term = Vector{} + 1.0F;
#pragma GCC unroll 12
  for (int64_t i = 0; i < kSums; ++i) sum[i] = Vector{};
  asm volatile("" : "+v"(factor), "+v"(term));  // not known when compiled
  for (int64_t t = 0; t < times; ++t) {
#pragma GCC unroll 12
    for (int64_t i = 0; i < kSums; ++i) {
      sum[i] = sum[i] * factor + term;
      asm volatile("" : "+v"(sum[i]));  // used
    }
  }
}

__attribute__((target("avx512f,fma"))) void by_avx512(int64_t times) { multiply_add<16>(times); }
__attribute__((target("avx2,fma"))) void by_avx2(int64_t times) { multiply_add<8>(times); }

#endif

}  // namespace

double peak_gflops() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  if (!avx512 && __builtin_cpu_supports("avx2") == 0) return 0;
  constexpr int64_t kTimes = 1'000'000;
  constexpr int kRuns = 20;
  using Clock = std::chrono::steady_clock;
  const int64_t threads = at::get_num_threads();
  double least_seconds = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = Clock::now();
    at::parallel_for(0, threads, 1, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) (avx512 ? by_avx512 : by_avx2)(kTimes);
    });
    least_seconds =
        std::min(least_seconds, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const double flops = 2.0 * kSums * (avx512 ? 16 : 8) * kTimes * static_cast<double>(threads);
  return flops / least_seconds / 1e9;
#else
  return 0;
#endif
}

}  // namespace lra
