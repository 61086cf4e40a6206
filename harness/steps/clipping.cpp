#include "harness/steps/clipping.h"

namespace lra {
namespace {

std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

void clip_gradient_values(const std::vector<torch::Tensor>& parameters, double most) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return;
  at::_foreach_clamp_min_(gradients, -most);
  at::_foreach_clamp_max_(gradients, most);
}

void clip_gradient_norm(const std::vector<torch::Tensor>& parameters, double most) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return;
  const std::vector<torch::Tensor> norms = at::_foreach_norm(gradients, 2);
  const torch::Tensor norm = norms.size() == 1 ? norms[0] : torch::stack(norms).norm(2);
  at::_foreach_mul_(gradients, torch::clamp(most / (norm + 1e-6), std::nullopt, 1.0));
}

}  // namespace lra
