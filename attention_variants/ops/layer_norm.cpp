#include "attention_variants/ops/layer_norm.h"

namespace lra::ops {

torch::Tensor mean_of_rows(const torch::Tensor& sum, const torch::Tensor& mask, int64_t over) {
  if (over > 0) return sum / static_cast<double>(over);
  return sum / mask.unsqueeze(-1).to(sum.scalar_type()).sum(1).clamp_min(1);
}

}  // namespace lra::ops
