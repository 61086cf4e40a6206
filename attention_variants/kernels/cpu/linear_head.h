// Linear attention (Katharopoulos et al., ICML 2020) of one head of one sample, forward and
// backward, a tile of positions at a time: with φ(x) = elu(x) + 1, S = φ(K)ᵀ [V 1] over the tokens,
// and each query's result is φ(q) S, its first part divided by its last number.
#pragma once

#include <cstdint>

#include "attention_variants/kernels/cpu/matrix.h"

namespace lra::cpu {

struct LinearShape {
  int64_t length = 0;  // N
  int64_t depth = 0;   // d
  bool normalise = true;
  float share = 1;  // what S is multiplied by where it is not normalised
  float least = 0;  // of the denominator
};

struct LinearInputs {
  ConstMatrix q, k, v;         // [N,d]
  const bool* mask = nullptr;  // [N]
};

/// Floats of S, which the backward pass reads.
int64_t linear_saved(const LinearShape& shape);
/// Floats of scratch, a thread.
int64_t linear_scratch(const LinearShape& shape);

/// Writes out [N,d], rows of padded positions zero, and `sums`.
void linear_forward(const LinearShape& shape, const LinearInputs& inputs, Matrix out, float* sums,
                    float* scratch);

struct LinearGradients {
  Matrix q, k, v;  // [N,d]
};

/// Writes all gradients, given that of out.
void linear_backward(const LinearShape& shape, const LinearInputs& inputs, const float* sums,
                     ConstMatrix grad_out, const LinearGradients& grad, float* scratch);

}  // namespace lra::cpu
