// Dropout, residual sum and layer normalisation of rows, in one pass.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/params.h"

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

/// float32 all through, or bfloat16; or a float32 residual to which bfloat16 is added, with a
/// result of either.
constexpr bool takes_add_norm(Storage residual, Storage added, Storage result) {
  return (residual == added && added == result) ||
         (residual == Storage::f32 && added == Storage::bf16);
}

inline constexpr int kMaxAddNormWidth = 1024;

void launch_add_norm(const AddNormParams& params, Stream stream);

/// Gradients of that, of rows where the mask is true; the others' are written as zero. The first of
/// two launches: those of weight and bias are the sums of `parts`, for launch_sum_parts().
struct AddNormBackwardParams {
  int64_t rows = 0;
  int width = 0;
  const void* sum = nullptr;          // [rows,width] of `residual`, as it was normalised
  const bool* mask = nullptr;         // [rows]; null: all true
  DropoutStream dropout;              // of y
  const float* weight = nullptr;      // [width]
  const float* moments = nullptr;     // [2,rows]
  const void* grad_normed = nullptr;  // [rows,width] of `result`; null: none, nor sum to parts
  const void* grad_sum = nullptr;     // [rows,width] of `residual`; null: zero
  void* grad_x = nullptr;             // [rows,width] of `residual`; null: not stored
  void* grad_y = nullptr;             // [rows,width] of `added`; null: there is no y
  float* parts = nullptr;             // [add_norm_parts(rows),2,width] of weight and bias
  Storage residual = Storage::f32, added = Storage::f32, result = Storage::f32;
};

/// Depends on nothing but `rows`, so that all devices add up alike.
constexpr int64_t add_norm_parts(int64_t rows) {
  constexpr int64_t kRowsAtATime = 8, kMostParts = 512;
  const int64_t blocks = (rows + kRowsAtATime - 1) / kRowsAtATime;
  return blocks < kMostParts ? blocks : kMostParts;
}

void launch_add_norm_backward(const AddNormBackwardParams& params, Stream stream);

}  // namespace lra::ops::cuda
