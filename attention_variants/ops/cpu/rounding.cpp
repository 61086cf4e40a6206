#include "attention_variants/ops/cpu/rounding.h"

#include "attention_variants/ops/autocast.h"

namespace lra::ops::cpu {
namespace {

constexpr const char* kRounded = "products_in_bfloat16";

GemmPrecision precision(bool rounded) {
  return rounded ? GemmPrecision::bfloat16 : GemmPrecision::float32;
}

}  // namespace

GemmPrecision save_gemm_precision(torch::autograd::AutogradContext& context) {
  const bool rounded = under_autocast(torch::kCPU);
  context.saved_data[kRounded] = rounded;
  return precision(rounded);
}

GemmPrecision saved_gemm_precision(const torch::autograd::AutogradContext& context) {
  return precision(context.saved_data.at(kRounded).toBool());
}

}  // namespace lra::ops::cpu
