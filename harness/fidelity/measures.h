// What experiments compute samples with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attention_variants/torch.h"
#include "harness/fidelity/fidelity_inputs.h"

namespace lra::fidelity {

using Measures = std::vector<std::pair<std::string, std::vector<double>>>;  // name -> samples

/// softmax(q kᵀ / √d) v in float64 of q, k, v [T,H,n,d] as they are; padded rows are zero.
torch::Tensor exact_attention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& mask);

/// One trial of several.
FidelityInputs sample(const FidelityInputs& inputs, int64_t trial);

/// The elements in their order, as float64.
std::vector<double> numbers(const torch::Tensor& x);

void append(std::vector<double>& to, const std::vector<double>& from);

/// ‖x − exact‖_F / ‖exact‖_F of each sample of x and exact [T,...].
std::vector<double> relative_errors(const torch::Tensor& x, const torch::Tensor& exact);

}  // namespace lra::fidelity
