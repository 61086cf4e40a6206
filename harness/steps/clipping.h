// Limits of gradients.
#pragma once

#include <vector>

#include "attention_variants/torch.h"

namespace lra {

/// torch::nn::utils::clip_grad_value_ and clip_grad_norm_, to the same bits, but over all gradients
/// in one operator and without reading the norm, which would wait for the device.
void clip_gradient_values(const std::vector<torch::Tensor>& parameters, double most);
void clip_gradient_norm(const std::vector<torch::Tensor>& parameters, double most);

}  // namespace lra
