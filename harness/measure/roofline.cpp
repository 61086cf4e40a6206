#include "harness/measure/roofline.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/linear.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"

namespace lra::measure {
namespace {

// Seconds of the fastest call in that time, and of at least three.
double fastest(torch::Device device, double seconds, const std::function<void()>& work) {
  const auto since = [](std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  work();
  host::synchronize(device);
  double best = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3 || since(start) < seconds; ++i) {
    if (host::stop_requested()) throw host::Interrupted("stopped while measuring");
    const auto begin = std::chrono::steady_clock::now();
    work();
    host::synchronize(device);
    const double taken = since(begin);
    best = i == 0 ? taken : std::min(best, taken);
  }
  return best;
}

// Floating-point operations a second of the fastest of several linear layers [rows,256] ->
// [rows,256]: the own kernel's products, for which LibTorch's library may be no measure. MKL's
// large ones are half as fast on an EPYC with AVX-512.
double fastest_of_layers(torch::Dtype dtype, double seconds) {
  constexpr int64_t kWidth = 256, kRowsOfThread = 2048;
  const int64_t rows = kRowsOfThread * at::get_num_threads();
  const auto x = torch::randn({1, rows, kWidth}).to(dtype);
  const auto weights = torch::dtype(dtype == torch::kDouble ? dtype : torch::kFloat);
  const ops::LinearWeights layer{torch::randn({kWidth, kWidth}, weights),
                                 torch::zeros({kWidth}, weights)};
  const ops::AutocastScope autocast(
      x.device(), dtype == torch::kBFloat16 ? ops::Dtype::bfloat16 : ops::Dtype::float32);
  const double flops = 2.0 * static_cast<double>(rows * kWidth * kWidth);
  return flops / fastest(x.device(), seconds,
                         [&] { ops::linear(ops::Kernels::fused, x, /*norm=*/nullptr, {layer}); });
}

}  // namespace

Roofline measure_roofline(torch::Device device, torch::Dtype dtype, int64_t memory_limit,
                          double seconds) {
  const torch::NoGradGuard no_grad;
  const auto options = torch::TensorOptions().dtype(dtype).device(device);
  // A GPU makes small products and copies in less time than it takes to wait for them.
  const bool rough = device.is_cpu() && seconds < 1;
  const double each = device.is_cpu() ? std::min(seconds / 2, 0.5) : 0.5;
  Roofline roofline;
  {
    const auto flops_of_product = [](int64_t n) { return 2.0 * static_cast<double>(n * n * n); };
    const auto gflops_of_product = [&](int64_t n, double time) {
      const auto a = torch::randn({n, n}, options), b = torch::randn({n, n}, options);
      auto c = torch::empty({n, n}, options);
      return flops_of_product(n) / fastest(device, time, [&] { torch::matmul_out(c, a, b); }) / 1e9;
    };
    const int64_t n = !device.is_cpu() ? 4096 : rough ? 1024 : 2048;
    // Of a type that the processor has no instructions for, LibTorch's large products take minutes
    // and are no faster.
    if (device.is_cpu()) roofline.gflops = gflops_of_product(256, each / 10);
    if (!device.is_cpu() || flops_of_product(n) / 1e9 < roofline.gflops)
      roofline.gflops = std::max(roofline.gflops, gflops_of_product(n, each));
    if (device.is_cpu())
      roofline.gflops = std::max(roofline.gflops, fastest_of_layers(dtype, each) / 1e9);
  }
  const int64_t most = int64_t{rough ? 64 : 512} << 20;
  const int64_t bytes = memory_limit > 0 ? std::min(most, memory_limit / 4) : most;
  const auto from = torch::ones({bytes / 4}, options.dtype(torch::kFloat));
  auto to = torch::empty_like(from);
  const double moved = 2.0 * static_cast<double>(from.nbytes());
  roofline.gigabytes_per_second = moved / fastest(device, each, [&] { to.copy_(from); }) / 1e9;
  return roofline;
}

double least_ms(double flops, double bytes, const Roofline& roofline) {
  return std::max(flops / roofline.gflops, bytes / roofline.gigabytes_per_second) / 1e6;
}

}  // namespace lra::measure
