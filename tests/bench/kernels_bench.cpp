// Micro-benchmarks of what the variants are made of, by Google Benchmark:
//   ./build/release/bin/lra_bench --benchmark_filter=Softmax --benchmark_repetitions=9
// With repetitions its own statistics (mean, median, standard deviation, coefficient of variation)
// follow. Whole variants are measured by `lra profile`.
#include <benchmark/benchmark.h>

#include "attention_variants/depthwise_conv.h"
#include "attention_variants/iterative_inverse.h"
#include "attention_variants/linear_attention.h"
#include "attention_variants/softmax.h"
#include "attention_variants/torch.h"

namespace lra {
namespace {

// The sizes of a BERT-base layer.
constexpr int64_t kHeads = 12, kWidth = 64;

torch::Tensor vectors(int64_t length) { return torch::randn({1, kHeads, length, kWidth}); }

// Reports the rate of `flops` operations a call.
void count(benchmark::State& state, int64_t flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(static_cast<double>(flops), benchmark::Counter::kIsIterationInvariantRate);
}

void Lengths(benchmark::internal::Benchmark* b) {
  b->RangeMultiplier(2)->Range(512, 4096)->UseRealTime()->Unit(benchmark::kMillisecond);
}

void SoftmaxAttention(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const int64_t n = state.range(0);
  const auto q = vectors(n), k = vectors(n), v = vectors(n);
  const auto mask = torch::ones({1, n}, torch::kBool);
  for (auto _ : state) benchmark::DoNotOptimize(softmax_attention(q, k, v, mask));
  count(state, 4 * kHeads * n * n * kWidth);
}
BENCHMARK(SoftmaxAttention)->Apply(Lengths);

// As in a landmark variant: few keys.
void SoftmaxAttentionTo64Keys(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const int64_t n = state.range(0), m = 64;
  const auto q = vectors(n), k = vectors(m), v = vectors(m);
  for (auto _ : state) benchmark::DoNotOptimize(softmax_attention(q, k, v, torch::Tensor()));
  count(state, 4 * kHeads * n * m * kWidth);
}
BENCHMARK(SoftmaxAttentionTo64Keys)->Apply(Lengths);

void SoftmaxAttentionBackward(benchmark::State& state) {
  const int64_t n = state.range(0);
  const auto q = vectors(n).requires_grad_(), k = vectors(n).requires_grad_(),
             v = vectors(n).requires_grad_();
  const auto mask = torch::ones({1, n}, torch::kBool);
  const auto gradient = vectors(n);
  const auto out = softmax_attention(q, k, v, mask);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        torch::autograd::grad({out}, {q, k, v}, {gradient}, /*retain_graph=*/true));
  }
  count(state, 8 * kHeads * n * n * kWidth);
}
BENCHMARK(SoftmaxAttentionBackward)->Apply(Lengths);

void LinearAttentionSums(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const int64_t n = state.range(0);
  const auto q = vectors(n).relu_(), k = vectors(n).relu_(), v = vectors(n);
  const auto mask = torch::ones({1, n}, torch::kBool);
  for (auto _ : state) {
    const auto sums = key_sums(k, counted_values(v, mask), /*offset=*/0);
    benchmark::DoNotOptimize(read_sums(q, sums, /*offset=*/0, /*least=*/1e-6));
  }
  count(state, 4 * kHeads * n * kWidth * (kWidth + 1));
}
BENCHMARK(LinearAttentionSums)->Apply(Lengths);

void DepthwiseConvolution(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const int64_t n = state.range(0), taps = 35;
  const auto x = vectors(n), weight = torch::randn({kHeads, 1, taps, 1});
  for (auto _ : state) benchmark::DoNotOptimize(depthwise_conv(x, weight));
  count(state, 2 * kHeads * n * kWidth * taps);
}
BENCHMARK(DepthwiseConvolution)->Apply(Lengths);

// m x m for a landmark variant.
void IterativeInverse(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const int64_t m = state.range(0), iterations = 6;
  const auto a = torch::softmax(torch::randn({1, kHeads, m, m}), -1);
  const auto start = a.transpose(-2, -1).contiguous() / a.sum(-2).amax();
  for (auto _ : state) benchmark::DoNotOptimize(iterative_inverse(a, start, iterations));
  count(state, iterations * 8 * kHeads * m * m * m);
}
BENCHMARK(IterativeInverse)
    ->Arg(32)
    ->Arg(64)
    ->Arg(128)
    ->Arg(256)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lra

BENCHMARK_MAIN();
