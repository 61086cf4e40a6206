// Bias, activation, dropout and residual sum of rows, forward and backward: what stands between the
// matrix products of a feed-forward block, and after them.
#pragma once

#include <algorithm>

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// GELU is x Φ(x), or its approximation by a hyperbolic tangent (Hendrycks & Gimpel, arXiv 2016).
enum class Activation { none, gelu, gelu_tanh };

/// y = residual + dropout(activation(x + bias)). Rows where the mask is false are not read; they
/// are written as zero.
struct DropoutRowsParams {
  int64_t rows = 0;
  int width = 0;
  Activation activation = Activation::none;
  Storage branch = Storage::f32, result = Storage::f32;  // bf16 into f32, or both the same
  const void* x = nullptr;                               // [rows,width] of `branch`
  const float* bias = nullptr;                           // [width]; null: none
  const void* residual = nullptr;                        // [rows,width] of `result`; null: none
  const bool* mask = nullptr;                            // [rows]; null: all true
  DropoutStream dropout;  // of activation(x + bias), element by element
  void* y = nullptr;      // [rows,width] of `result`; may be x where both are the same

  // Backward.
  const void* grad = nullptr;  // [rows,width] of `result`
  void* grad_x = nullptr;      // [rows,width] of `branch`; may be grad where both are the same
  void* dropped = nullptr;     // [rows,width] of `branch`, dropout(activation(x + bias)) once more;
                               // null: not asked for
  float* parts = nullptr;      // [dropout_rows_parts(),width], sums of grad_x over rows for the
                               // gradient of the bias; null: not asked for
  int64_t part_stride = 0;     // elements from one part to the next
};

/// Rows that add up to one of the parts, and how many parts there are.
constexpr int64_t dropout_rows_of_part(int64_t rows) {
  constexpr int64_t kFewest = 16, kMostParts = 512;
  return std::max(kFewest, (rows + kMostParts - 1) / kMostParts);
}
constexpr int64_t dropout_rows_parts(int64_t rows) {
  return (rows + dropout_rows_of_part(rows) - 1) / dropout_rows_of_part(rows);
}

/// Writes y, of x, bias and residual.
void launch_dropout_rows_forward(const DropoutRowsParams& params, Stream stream);

/// Writes grad_x, dropped and parts, of grad, and of x and bias where there is an activation or
/// `dropped` is asked for.
void launch_dropout_rows_backward(const DropoutRowsParams& params, Stream stream);

}  // namespace lra::ops::cuda
