// philox_dropout() by emulated kernels: what the CPU drops, bit for bit.
#include "attention_variants/ops/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using torch::Tensor;

struct Dropped {
  Tensor y, gradient;
};

Dropped dropped_on(Device device, const Tensor& x, const Tensor& given) {
  const OnDevice on(device);
  torch::manual_seed(5);
  const Tensor leaf = x.detach().clone().requires_grad_();
  const Tensor y = ops::philox_dropout(leaf, 0.3, /*training=*/true);
  return {y.detach(), torch::autograd::grad({y}, {leaf}, {given})[0]};
}

TEST(EmulatedDropout, DropsWhatTheCpuDrops) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {0}, {1}, {129}, {3, 101, 7}}) {
      const Tensor x = torch::randn(sizes).to(type), given = torch::randn(sizes).to(type);
      const int64_t before = emulator::launches();
      const Dropped cpu = dropped_on(Device::cpu, x, given);
      ASSERT_EQ(emulator::launches(), before);
      const Dropped gpu = dropped_on(Device::emulated_gpu, x, given);
      EXPECT_EQ(emulator::launches() - before, x.numel() == 0 ? 0 : 2);
      EXPECT_TRUE(torch::equal(cpu.y, gpu.y)) << type << " " << x.sizes();
      EXPECT_TRUE(torch::equal(cpu.gradient, gpu.gradient)) << type << " " << x.sizes();
    }
  }
}

TEST(EmulatedDropout, PartsOfABatchDropWhatTheWholeDoes) {
  const Tensor x = torch::rand({7, 5, 3}).add(1);
  const Tensor whole = dropped_on(Device::cpu, x, torch::ones_like(x)).y;
  const OnDevice on(Device::emulated_gpu);
  const ops::BatchSlice part(2, 4, at::make_generator<at::CPUGeneratorImpl>(uint64_t{5}));
  EXPECT_TRUE(torch::equal(ops::philox_dropout(x.slice(0, 2, 6), 0.3, /*training=*/true),
                           whole.slice(0, 2, 6)));
}

}  // namespace
}  // namespace lra
