// Checks of the machine: what it reaches, and its dropout.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "attention_variants/base/philox.h"
#include "attention_variants/ops/dropout.h"
#include "attention_variants/python_host.h"
#include "harness/host/memory.h"
#include "harness/measure/measure.h"
#include "harness/measure/roofline.h"
#include "harness/selfcheck/checks.h"

namespace lra::selfcheck {
namespace {

// Whether a dropout keeps element `index`: its 16 bits of Philox under key `seed` are at least the
// threshold. A block of 128 elements takes 16 counters; element 16 h + l of a block has half h of
// the words of counter l.
bool is_kept(uint64_t seed, uint64_t index, int64_t threshold) {
  const uint64_t block = index / 128, half = index % 128 / 16, counter = block * 16 + index % 16;
  const std::array<uint32_t, 4> words =
      philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint32_t word = words[half / 2];
  return (half % 2 == 0 ? word & 0xFFFF : word >> 16) >= threshold;
}

// The number that a dropout draws of the default generator after seed_generators(seed).
uint64_t drawn_number(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed).get<at::CPUGeneratorImpl>()->random64();
}

// GFLOP/s of the fastest of many short products [256,256]: beside other work these find a moment
// for themselves, which the large ones of a roofline do not.
double short_products(torch::Device device) {
  constexpr int64_t kSize = 256;
  constexpr int kTimes = 200;
  const torch::NoGradGuard no_grad;
  const torch::Tensor a = torch::randn({kSize, kSize}, device);
  torch::Tensor c = torch::empty_like(a);
  const measure::Measurement products = measure::measure(
      [&] { torch::matmul_out(c, a, a); }, device,
      {.seconds = 1, .precision = 0, .fewest = kTimes, .most = kTimes, .least_seconds = 0});
  return 2.0 * kSize * kSize * kSize / std::ranges::min(products.samples) / 1e6;
}

}  // namespace

void measure_machine(const CheckSubject& subject, CheckReport& report) {
  const int64_t limit = subject.device.is_cpu() ? host::default_memory_limit() : INT64_MAX;
  const Roofline roofline =
      measure::measure_roofline(subject.device, torch::kFloat, limit, subject.seconds);
  report.measures.gflops = std::max(roofline.gflops, short_products(subject.device));
  report.measures.gigabytes_per_second = roofline.gigabytes_per_second;
  for (const auto& [what, value] : {std::pair{"products", *report.measures.gflops},
                                    {"copies", roofline.gigabytes_per_second}}) {
    if (!std::isfinite(value) || value <= 0)
      throw CheckEnd(Finding::failed, std::string("the speed of ") + what + " is no number");
  }
}

void check_dropout_bits(const CheckSubject& subject, CheckReport& report) {
  skip_without_own_kernels(subject.device);
  const auto drop = [](const torch::Tensor& x, double p) {
    return ops::philox_dropout(x, p, /*training=*/true);
  };
  check_dropout_bits(subject.device, drop, report);
}

void check_dropout_bits(torch::Device device, const DropoutFunction& drop, CheckReport& report) {
  constexpr int64_t kElements = 1000;  // seven blocks and a part
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    if (type == torch::kDouble && !device.is_cpu()) continue;  // LibTorch's own numbers
    for (const double p : {0.1, 0.5}) {
      constexpr uint64_t kSeed = 20;
      seed_generators(kSeed);
      const torch::Tensor kept =
          drop(torch::ones({kElements}, torch::TensorOptions().device(device).dtype(type)), p)
              .ne(0)
              .cpu();
      const uint64_t number = drawn_number(kSeed);
      const bool* bits = kept.const_data_ptr<bool>();
      int64_t wrong = 0;
      for (int64_t i = 0; i < kElements; ++i) {
        wrong += bits[i] != is_kept(number, static_cast<uint64_t>(i), ops::dropout_threshold(p));
      }
      report.at_most(std::string("dropped or kept wrongly in ") + c10::toString(type),
                     static_cast<double>(wrong) / kElements, 0);
    }
  }
}

}  // namespace lra::selfcheck
