// Layer normalisation of rows, forward and backward.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// normed = (x - mean) / sqrt(variance + eps) * weight + bias over a row. Rows where the mask is
/// false are not read; they are written as zero.
struct NormRowsParams {
  int64_t rows = 0;
  int width = 0;                  // 1 to kMaxNormWidth
  const void* x = nullptr;        // [rows,width] of `input`
  const bool* mask = nullptr;     // [rows]; null: all true
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width]
  float eps = 0;
  void* normed = nullptr;    // [rows,width] of `result`
  float* moments = nullptr;  // [2,rows] mean and inverse standard deviation
  // float32 or bfloat16 both, or a float32 input and a bfloat16 result.
  Storage input = Storage::f32, result = Storage::f32;
};

inline constexpr int kMaxNormWidth = 1024;

void launch_norm_rows(const NormRowsParams& params, Stream stream);

/// Gradients of that, of rows where the mask is true; the others' are written as zero. The first of
/// two launches: those of weight and bias are the sums of `parts`, for launch_sum_parts().
struct NormRowsBackwardParams {
  int64_t rows = 0;
  int width = 0;
  const void* x = nullptr;            // [rows,width] of `input`
  const bool* mask = nullptr;         // [rows]; null: all true
  const float* weight = nullptr;      // [width]
  const float* moments = nullptr;     // [2,rows]
  const void* grad_normed = nullptr;  // [rows/sharing,width] of `result`
  int64_t sharing = 1;                // rows one after another that have the same gradient
  const float* factors = nullptr;     // [rows/sharing], of their gradients; null: 1
  const void* grad_past = nullptr;    // [rows,width] of `input`, added to grad_x; null: zero
  void* grad_x = nullptr;             // [rows,width] of `input`
  float* parts = nullptr;             // [norm_parts(rows),2,width] of weight and bias
  Storage input = Storage::f32, result = Storage::f32;
};

/// Depends on nothing but `rows`, so that all devices add up alike.
constexpr int64_t norm_parts(int64_t rows) {
  constexpr int64_t kRowsAtATime = 8, kMostParts = 512;
  const int64_t blocks = (rows + kRowsAtATime - 1) / kRowsAtATime;
  return blocks < kMostParts ? blocks : kMostParts;
}

void launch_norm_rows_backward(const NormRowsBackwardParams& params, Stream stream);

}  // namespace lra::ops::cuda
