// Softmax attention of one head of one sample in which a block of queries sees some ranges of keys,
// or a band of them: forward and backward, a block at a time. The keys that a block sees are
// gathered, without those of padding; no more than the scores of a few queries is ever held, and
// the backward pass computes them anew.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/softmax_columns.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cpu {

using Range = KeyRange;

struct PatternShape {
  int64_t length = 0;  // N
  int64_t depth = 0;   // d of queries and keys
  int64_t values = 0;  // e of values
  float scale = 1;
};

struct PatternInputs {
  ConstMatrix q, k, v;         // [N,d], [N,d], [N,e]
  const bool* mask = nullptr;  // [N]
};

struct PatternGradients {
  Matrix q, k, v;
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Floats of scratch, a thread, of the forward or the backward pass.
int64_t pattern_scratch(const PatternShape& shape, const SparsityPattern& pattern, bool backward);

/// Writes out [N,e], softmax(scale q kᵀ) v over the tokens each query sees, and stats [N].
/// Rows of padding, and of queries that see no token, are zero.
void pattern_forward(const PatternShape& shape, const SparsityPattern& pattern,
                     const PatternInputs& inputs, Matrix out, const SoftmaxStats& stats,
                     float* scratch);

/// Writes all gradients, given out and its gradient.
void pattern_backward(const PatternShape& shape, const SparsityPattern& pattern,
                      const PatternInputs& inputs, ConstMatrix out, const SoftmaxStats& stats,
                      ConstMatrix grad_out, const PatternGradients& grad, float* scratch);

}  // namespace lra::ops::LRA_KERNELS
