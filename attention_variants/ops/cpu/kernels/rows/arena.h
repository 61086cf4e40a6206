// Scratch memory of the kernels.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::LRA_KERNELS {

// Hands out a buffer from the front.
class Arena {
 public:
  explicit Arena(float* begin) : next_(begin) {}
  float* take(int64_t count) {
    float* taken = next_;
    next_ += count;
    return taken;
  }
  Matrix matrix(int64_t rows, int64_t columns) { return {take(rows * columns), columns}; }

 private:
  float* next_;
};

}  // namespace lra::ops::LRA_KERNELS
