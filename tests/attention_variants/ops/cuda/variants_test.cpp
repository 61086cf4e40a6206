// Every attention on emulated kernels, forward and backward, against the reference in float64.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/attention_variants/cases.h"
#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using torch::Tensor;

// The result, and the gradients of the input and of every parameter that it depends on.
std::vector<Tensor> pass_of(const std::string& spec, torch::ScalarType type, Kernels kernels,
                            Device device) {
  const OnDevice on(device);
  const auto attention = make(
      spec, type,
      {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = 3, .kernels = kernels});
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{4});
  const auto draw = [&] { return torch::randn({3, 29, 8}, generator, torch::kDouble); };
  const Tensor mask = length_mask({29, 11, 0}, 29), real = mask.unsqueeze(-1),
               x = draw().to(type).requires_grad_(), gradient = (draw() * real).to(type),
               y = attention->forward(x, mask);
  std::vector<Tensor> leaves = attention->parameters();
  leaves.insert(leaves.begin(), x);
  std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {gradient}, {}, {}, true);
  for (Tensor& of : all) {
    if (!of.defined()) of = torch::zeros({1});
  }
  all[0] = all[0] * real;
  all.insert(all.begin(), y.detach() * real);
  return all;
}

// Where one key alone is seen, the gradients of its scores are zero: what is left is the rounding
// of terms of order 1 that cancel, which has no relation to the result.
void expect_zero_where(std::vector<Tensor>& exact, std::vector<Tensor>& plain,
                       std::vector<Tensor>& fused) {
  for (size_t i = 0; i < exact.size(); ++i) {
    if (exact[i].abs().max().item<double>() > 1e-12) continue;
    EXPECT_LT(fused[i].abs().max().item<double>(), 1e-5) << i;
    fused[i] = plain[i] = exact[i] = torch::ones({1});
  }
}

TEST(EmulatedVariants, ComputeWhatTheReferenceDoes) {
  int64_t launched = 0;
  for (const ContractCase& c : contract_cases()) {
    auto exact = pass_of(c.spec, torch::kDouble, Kernels::reference, Device::cpu),
         plain = pass_of(c.spec, torch::kFloat, Kernels::reference, Device::cpu);
    const int64_t before = emulator::launches();
    auto fused = pass_of(c.spec, torch::kFloat, Kernels::fused, Device::emulated_gpu);
    launched += emulator::launches() - before;
    SCOPED_TRACE(c.spec);
    expect_zero_where(exact, plain, fused);
    // Operands of products are sums of two tf32, exact to 21 bits where a float32 has 24
    // (SplitTf32): with exact ones cosformer's gradients are a third as far off.
    expect_as_exact(fused, plain, exact, 1e-5, /*times=*/16);
  }
  EXPECT_GT(launched, 0);
}

}  // namespace
}  // namespace lra
