#include "attention_variants/ops/cpu/kernels/rows/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Of logits without a loss: the first NaN is predicted, where there is one.
bool predicts(const float* logits, int64_t classes, int64_t label, bool greatest) {
  const float* const end = logits + classes;
  const float* const nan = std::find_if(logits, end, [](float x) { return std::isnan(x); });
  return nan == end ? greatest : nan == logits + label;
}

}  // namespace

RowLoss cross_entropy_row(const float* logits, int64_t classes, int64_t label, float share,
                          float* gradient) {
  const float top = largest(logits, classes);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < classes; ++c) {
    gradient[c] = exp(logits[c] - top);
    sum += gradient[c];
  }
  const float scale = share / sum;
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) gradient[c] *= scale;
  gradient[label] -= share;
  const bool first = logits[label] == top && (label == 0 || largest(logits, label) < top);
  return {.loss = std::log(sum) - (logits[label] - top),
          .correct = std::isnan(sum) ? predicts(logits, classes, label, first) : first};
}

}  // namespace lra::ops::cpu::LRA_ISA
