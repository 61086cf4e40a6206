#include "attention_variants/ops/reference/iterative_inverse.h"

namespace lra::ops::reference {

torch::Tensor iterative_inverse(const torch::Tensor& a, torch::Tensor z, int64_t iterations) {
  const torch::Tensor one = torch::eye(a.size(-1), a.options());
  const torch::Tensor seven = 7 * one, fifteen = 15 * one, thirteen = 13 * one;
  for (int64_t i = 0; i < iterations; ++i) {
    const torch::Tensor az = torch::matmul(a, z);
    const torch::Tensor inner = fifteen - torch::matmul(az, seven - az);
    z = torch::matmul(0.25 * z, thirteen - torch::matmul(az, inner));
  }
  return z;
}

}  // namespace lra::ops::reference
