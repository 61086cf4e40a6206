// The cross-entropy of a batch's logits, with the gradient.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// Of row r: loss -log softmax(logits)[label]; correct where the label has the greatest logit, the
/// first among equals; gradient (softmax(logits) - [label]) share. A label that is not in
/// [0,classes) makes loss and gradient NaN. A row with a NaN is not correct.
struct CrossEntropyParams {
  int rows = 0, classes = 0;
  const float* logits = nullptr;    // [rows,classes]
  const int64_t* labels = nullptr;  // [rows]
  float share = 1;
  float* sums = nullptr;      // [2], over rows, of losses and of those correct
  float* gradient = nullptr;  // [rows,classes]
};

/// What one block goes through.
inline constexpr int64_t kMostLogits = 1 << 16;

void launch_cross_entropy(const CrossEntropyParams& params, Stream stream);

}  // namespace lra::ops::cuda
