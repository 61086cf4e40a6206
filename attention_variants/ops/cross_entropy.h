// The loss of a training step, and its gradient.
#pragma once

#include <cstdint>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct CrossEntropy {
  torch::Tensor sums;      // [2] float32 or float64: of the losses, and of correct predictions
  torch::Tensor gradient;  // [B,C] float32, of the sum of the losses divided by `count`
};

struct CrossEntropyShape {
  int64_t rows = 0, classes = 0;
};

struct CrossEntropyCall {
  using Result = CrossEntropy;
  using Shape = CrossEntropyShape;
  torch::Tensor logits, labels;
  int64_t count = 1;
};

/// Of logits [B,C] float32 and labels [B] int64: -log softmax(logits)[label], whether the label has
/// the greatest logit, the first among equals, and the gradient of the loss. Nothing here is
/// differentiable: logits.backward(gradient) goes on.
CrossEntropy cross_entropy(Kernels asked, const torch::Tensor& logits, const torch::Tensor& labels,
                           int64_t count);

}  // namespace lra::ops
