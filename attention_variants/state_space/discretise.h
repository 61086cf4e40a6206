// From x' = a x + b u in continuous time to x_t = ā x_{t-1} + b̄ u_t, of diagonal a.
#pragma once

#include <array>

#include "attention_variants/torch.h"

namespace lra::state_space {

enum class Discretisation {
  zoh,       // u is held between two positions: ā = e^{a Δ}, b̄ = (ā - 1) / a
  bilinear,  // ā = (1 + a Δ/2) / (1 - a Δ/2), b̄ = Δ / (1 - a Δ/2)
};
constexpr auto names(Discretisation) { return std::array{"zoh", "bilinear"}; }

struct Discrete {
  torch::Tensor log_transition;  // log ā, complex
  torch::Tensor gain;            // b̄ of b = 1, complex
};

/// a complex, step Δ real, of shapes that broadcast.
Discrete discretise(const torch::Tensor& a, const torch::Tensor& step, Discretisation kind);

/// Real numbers drawn log-uniformly from [low, high], float64.
torch::Tensor log_uniform(at::IntArrayRef sizes, double low, double high);

/// [...,2], real and imaginary parts, in any floating-point type -> complex128 [...].
torch::Tensor complex_of(const torch::Tensor& parts);

/// Complex [...] -> float32 [...,2].
torch::Tensor parts_of(const torch::Tensor& z);

}  // namespace lra::state_space
