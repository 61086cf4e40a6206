#include "attention_variants/ops/cpu/rounding.h"

#include <ATen/autocast_mode.h>

namespace lra::ops::cpu {
namespace {

constexpr const char* kRounded = "products_in_bfloat16";

GemmPrecision precision(bool rounded) {
  return rounded ? GemmPrecision::bfloat16 : GemmPrecision::float32;
}

}  // namespace

GemmPrecision save_gemm_precision(torch::autograd::AutogradContext& context) {
  const bool rounded = at::autocast::is_autocast_enabled(torch::kCPU);
  context.saved_data[kRounded] = rounded;
  return precision(rounded);
}

GemmPrecision saved_gemm_precision(const torch::autograd::AutogradContext& context) {
  return precision(context.saved_data.at(kRounded).toBool());
}

torch::ScalarType result_type(const torch::Tensor& x) {
  const bool left = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
  return at::autocast::is_autocast_enabled(torch::kCPU) && !left ? torch::kBFloat16
                                                                 : x.scalar_type();
}

}  // namespace lra::ops::cpu
