// Micro-benchmarks of what the variants and the model are made of, by Google Benchmark:
//   ./build/release/bin/lra_bench --benchmark_filter=Softmax.*fused --benchmark_repetitions=9
// With repetitions its own statistics (mean, median, standard deviation, coefficient of variation)
// follow. Names are OPERATOR/PATH/PASS/SIZE: the path is `fused` (this project's kernels) or
// `reference` (LibTorch's operators), the pass `forward` (no gradients) or `training` (forward and
// backward, counted as three forwards). Counters: GFLOP/s, and `roofline`, the part of what this
// machine reaches (measured at the start: the lower of a large matrix product's rate and of a
// large copy's times the operations per byte that must move). `peak` is what multiply-adds reach in
// registers alone. Whole variants are measured by `lra profile`. Threads: OMP_NUM_THREADS.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>

#include "harness/host/memory.h"
#include "harness/host/pages.h"
#include "harness/host/runtime.h"
#include "harness/measure/roofline.h"
#include "results/analysis/profile_cells.h"
#include "tests/bench/bench.h"
#include "tests/bench/peak.h"

namespace lra {

torch::Tensor head_vectors(int64_t length) { return torch::randn({1, kHeads, length, kWidth}); }

BenchWork differentiable(const std::function<torch::Tensor(bool training)>& function,
                         std::vector<torch::Tensor> leaves, double flops) {
  torch::Tensor gradient;
  {
    const torch::NoGradGuard no_grad;
    gradient = torch::randn_like(function(/*training=*/false));
  }
  double bytes = static_cast<double>(gradient.nbytes());
  for (torch::Tensor& leaf : leaves) {
    leaf.requires_grad_();
    bytes += static_cast<double>(leaf.nbytes());
  }
  return {.forward =
              [function] {
                const torch::NoGradGuard no_grad;
                benchmark::DoNotOptimize(function(/*training=*/false));
              },
          .training =
              [function, leaves, gradient] {
                function(/*training=*/true).backward(gradient);
                for (torch::Tensor leaf : leaves) leaf.mutable_grad() = torch::Tensor();
              },
          .flops = flops,
          .least_bytes = bytes};
}

namespace {

void run(benchmark::State& state, const BenchOperator& of, Kernels kernels, bool training,
         const Roofline& roofline) {
  torch::manual_seed(0);
  const BenchWork work = of.make(state.range(0), kernels);
  const std::function<void()>& call = training ? work.training : work.forward;
  // Our own clock, so that the counters are of the very times that are reported.
  using Clock = std::chrono::steady_clock;
  double seconds = 0;
  for (auto _ : state) {
    const auto begin = Clock::now();
    call();
    const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
    state.SetIterationTime(taken);
    seconds += taken;
  }
  const double rate =
      work.flops * (training ? 3 : 1) * static_cast<double>(state.iterations()) / seconds / 1e9;
  state.counters["GFLOP/s"] = rate;
  state.counters["roofline"] = rate / attainable_gflops(roofline, work.flops, work.least_bytes);
}

void register_all(const Roofline& roofline) {
  for (const auto& operators : {attention_operators(), matrix_operators(), model_operators()}) {
    for (const BenchOperator& of : operators) {
      for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
        for (const bool training : {false, true}) {
          const std::string name =
              fmt::format("{}/{}/{}", of.name, kernels == Kernels::fused ? "fused" : "reference",
                          training ? "training" : "forward");
          auto* bench = benchmark::RegisterBenchmark(
              name.c_str(), [of, kernels, training, roofline](benchmark::State& state) {
                run(state, of, kernels, training, roofline);
              });
          bench->ArgName(of.size_name)->UseManualTime()->Unit(benchmark::kMillisecond);
          for (const int64_t size : of.sizes) bench->Arg(size);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lra

int main(int argc, char** argv) {
  // As the program does, before there are threads.
  lra::host::flush_denormals();
  // Likewise: else it depends on what lies at the heap's end whether each iteration
  // faults its pages in anew.
  lra::host::keep_freed_pages();
  lra::host::install_counting_allocator();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const lra::Roofline roofline = lra::measure::measure_roofline(torch::kCPU, torch::kFloat32, 0, 1);
  benchmark::AddCustomContext(
      "roofline", fmt::format("{:.6g} GFLOP/s, {:.6g} GB/s, {} threads", roofline.gflops,
                              roofline.gigabytes_per_second, at::get_num_threads()));
  benchmark::AddCustomContext("peak", fmt::format("{:.6g} GFLOP/s", lra::peak_gflops()));
  lra::register_all(roofline);
  lra::register_teams();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
