// Dropout, residual sum and layer normalisation of rows, in one pass.
#pragma once

#include "attention_variants/ops/cuda/kernels/params.h"

namespace lra::ops::cuda {

/// sum = x + dropout(y), normed = (sum - mean) / sqrt(variance + eps) * weight + bias over a row.
/// Rows where the mask is false are not read; they are written as zero.
struct AddNormParams {
  int64_t rows = 0;
  int width = 0;                  // 1 to kMaxAddNormWidth
  const void* x = nullptr;        // [rows,width] of `residual`
  const void* y = nullptr;        // [rows,width] of `added`; null: none, sum is x
  const bool* mask = nullptr;     // [rows]; null: all true
  DropoutStream dropout;          // of y
  const float* weight = nullptr;  // [width]; null with bias and normed: no normalisation
  const float* bias = nullptr;    // [width]
  float eps = 0;
  void* sum = nullptr;       // [rows,width] of `residual`; null: not stored
  void* normed = nullptr;    // [rows,width] of `result`; null: none
  float* moments = nullptr;  // [2,rows] mean and inverse standard deviation; with normed
  Storage residual = Storage::f32, added = Storage::f32, result = Storage::f32;
};

inline constexpr int kMaxAddNormWidth = 1024;

void launch_add_norm(const AddNormParams& params, Stream stream);

}  // namespace lra::ops::cuda
