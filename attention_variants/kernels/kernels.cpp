#include "attention_variants/kernels/kernels.h"

#include <ATen/autocast_mode.h>

namespace lra {

bool has_cpu_kernels(Kernels chosen, const torch::Tensor& x) {
  return chosen == Kernels::fused && x.is_cpu() && x.scalar_type() == torch::kFloat &&
         !at::autocast::is_autocast_enabled(torch::kCPU);
}

}  // namespace lra
