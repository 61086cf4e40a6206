// Nyström attention of one head of one sample, forward and backward: landmarks by segment means,
// the iterative inverse of each matrix by itself, the two softmax attentions by tiles, and the
// depthwise convolution. All that a head reads and makes (at N = 2048 and d = 32 about 1.5 MB)
// stays in a core's cache; from memory come q, k and v, once, and to it goes the result.
//
// The function is that of nystrom.cpp (Xiong et al., AAAI 2021), which keeps it formula by formula.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"

namespace lra::ops::cpu {

struct NystromShape {
  int64_t length = 0;     // N, more than landmarks
  int64_t landmarks = 0;  // m
  int64_t depth = 0;      // d
  int64_t iterations = 0;
  int64_t kernel = 0;  // taps of the convolution; 0 = none
};

/// One head: q, k and v [N,d], any row stride.
struct NystromInputs {
  ConstMatrix q, k, v;
  const bool* mask = nullptr;          // [N]
  const float* conv_weight = nullptr;  // [kernel]
};

struct NystromGradients {
  Matrix q, k, v;                // [N,d]
  float* conv_weight = nullptr;  // [kernel]
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Floats that the forward pass leaves for the backward pass, a head.
int64_t nystrom_saved(const NystromShape& shape);

/// Floats of scratch that the passes need, a thread.
int64_t nystrom_scratch(const NystromShape& shape, InnerPadding holes);
int64_t nystrom_backward_scratch(const NystromShape& shape, InnerPadding holes);

/// Writes out [N,d], rows of padded positions zero. `saved` may be null where no backward follows.
void nystrom_forward(const NystromShape& shape, const NystromInputs& inputs, Matrix out,
                     float* saved, float* scratch);

/// Writes all gradients, given that of out [N,d].
void nystrom_backward(const NystromShape& shape, const NystromInputs& inputs, const float* saved,
                      ConstMatrix grad_out, const NystromGradients& gradients, float* scratch);

}  // namespace lra::ops::LRA_KERNELS
