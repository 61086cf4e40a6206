#include "harness/steps/step_sums.h"

namespace lra {

StepSums::StepSums(torch::Device device)
    : sums_(torch::zeros({2}, torch::TensorOptions().dtype(torch::kDouble).device(device))) {}

void StepSums::set(double loss, int64_t correct) {
  sums_[0].fill_(loss);
  sums_[1].fill_(static_cast<double>(correct));
}

void StepSums::add(const torch::Tensor& sums) {
  const torch::NoGradGuard no_grad;
  sums_.add_(sums);
}

void StepSums::read(double& loss, int64_t& correct) const {
  const torch::Tensor sums = sums_.cpu();
  loss = sums[0].item<double>();
  correct = static_cast<int64_t>(sums[1].item<double>());
}

}  // namespace lra
