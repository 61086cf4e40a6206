#include "attention_variants/state_space/discretise.h"

#include <cmath>

namespace lra::state_space {

Discrete discretise(const torch::Tensor& a, const torch::Tensor& step, Discretisation kind) {
  if (kind == Discretisation::zoh) {
    const torch::Tensor log_transition = a * step;
    return {log_transition, (log_transition.exp() - 1) / a};
  }
  const torch::Tensor half = a * step / 2, below = 1 - half;
  return {((1 + half) / below).log(), step / below};
}

torch::Tensor log_uniform(at::IntArrayRef sizes, double low, double high) {
  return torch::empty(sizes, torch::kDouble).uniform_(std::log(low), std::log(high)).exp();
}

torch::Tensor complex_of(const torch::Tensor& parts) {
  return torch::view_as_complex(parts.to(torch::kDouble).contiguous());
}

torch::Tensor parts_of(const torch::Tensor& z) {
  return torch::view_as_real(z.resolve_conj()).to(torch::kFloat).clone();
}

}  // namespace lra::state_space
