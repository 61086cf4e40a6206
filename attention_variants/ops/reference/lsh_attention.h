// Attention among tokens that a hash puts near each other by LibTorch's operators: hashes and the
// softmax are at least float32, products keep the type of x. Differentiable once.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// The type of hashes, scores and softmaxes of x: float64 for float64, else float32.
torch::ScalarType lsh_wide_type(const torch::Tensor& x);

}  // namespace lra::ops::reference
