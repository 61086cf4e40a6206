#include "attention_variants/ops/dispatch.h"

#include <ATen/autocast_mode.h>

#include "attention_variants/ops/cpu/kernels/gemm.h"

namespace lra::ops {
namespace {

bool under_autocast() { return at::autocast::is_autocast_enabled(torch::kCPU); }

constexpr const char* kRounded = "products_in_bfloat16";

}  // namespace

bool has_cpu_kernels(Kernels chosen, const torch::Tensor& x) {
  return chosen == Kernels::fused && x.is_cpu() && x.scalar_type() == torch::kFloat &&
         (!under_autocast() || at::autocast::get_autocast_dtype(torch::kCPU) == torch::kBFloat16);
}

cpu::GemmPrecision save_gemm_precision(torch::autograd::AutogradContext& context) {
  context.saved_data[kRounded] = under_autocast();
  return under_autocast() ? cpu::GemmPrecision::bfloat16 : cpu::GemmPrecision::float32;
}

cpu::GemmPrecision saved_gemm_precision(const torch::autograd::AutogradContext& context) {
  return context.saved_data.at(kRounded).toBool() ? cpu::GemmPrecision::bfloat16
                                                  : cpu::GemmPrecision::float32;
}

}  // namespace lra::ops
