#include "attention_variants/ops/dispatch.h"

#include <ATen/autocast_mode.h>

#include "attention_variants/ops/cpu/kernels/gemm.h"

namespace lra {
namespace {

bool under_autocast() { return at::autocast::is_autocast_enabled(torch::kCPU); }

constexpr const char* kRounded = "products_in_bfloat16";

}  // namespace

bool has_cpu_kernels(Kernels chosen, const torch::Tensor& x) {
  return chosen == Kernels::fused && x.is_cpu() && x.scalar_type() == torch::kFloat &&
         (!under_autocast() || at::autocast::get_autocast_dtype(torch::kCPU) == torch::kBFloat16);
}

cpu::Products keep_products(torch::autograd::AutogradContext& context) {
  context.saved_data[kRounded] = under_autocast();
  return under_autocast() ? cpu::Products::bfloat16 : cpu::Products::float32;
}

cpu::Products kept_products(const torch::autograd::AutogradContext& context) {
  return context.saved_data.at(kRounded).toBool() ? cpu::Products::bfloat16
                                                  : cpu::Products::float32;
}

}  // namespace lra
