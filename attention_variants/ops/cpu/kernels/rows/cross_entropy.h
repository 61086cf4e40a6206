// The loss of a row of logits, and its gradient.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/isa.h"

namespace lra::ops::cpu {

struct RowLoss {
  float loss;
  bool correct;  // whether the label is the first of the greatest logits, NaN being greatest
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// The loss -log softmax(logits)[label] of logits [classes], with 0 <= label < classes; gradient
/// [classes] = share (softmax(logits) - [c = label]). Both are NaN where a logit is NaN or plus
/// infinity, or all are minus infinity.
RowLoss cross_entropy_row(const float* logits, int64_t classes, int64_t label, float share,
                          float* gradient);

}  // namespace lra::ops::LRA_KERNELS
