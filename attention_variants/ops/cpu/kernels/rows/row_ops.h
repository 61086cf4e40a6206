// Arithmetic on rows of float32 in cache, compiled for each instruction set: what stands between
// the matrix products of a block.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::LRA_KERNELS {

/// to = (x - mean) / sd * weight + bias by row, x [rows,width]; inverse_sd and mean [rows] are
/// kept.
void normalise_rows(const float* x, int64_t rows, int64_t width, const float* weight,
                    const float* bias, float eps, float* to, float* mean, float* inverse_sd);

/// grad_x = past + the gradient through normalise_rows(), given grad [rows,width] of its result;
/// past [rows,width] may be grad_x, or null for zeros. Adds to grad_weight and grad_bias [width]
/// what it has summed over the rows.
void normalise_rows_backward(const float* x, const float* grad, int64_t rows, int64_t width,
                             const float* weight, const float* mean, const float* inverse_sd,
                             const float* past, float* grad_x, float* grad_weight,
                             float* grad_bias);

/// x [rows,width] += bias [width].
void add_bias(float* x, int64_t rows, int64_t width, const float* bias);

/// to = GELU(x), x Φ(x), and x becomes GELU'(x).
void gelu_and_slope(float* x, int64_t count, float* to);

/// sums [width] += the sum of the rows of x [rows,width], each times its weight where there are
/// any.
void add_column_sums(ConstMatrix x, int64_t rows, int64_t width, float* sums,
                     const float* weights = nullptr);

/// Each row of x [rows,width] times its factor [rows].
void scale_rows(Matrix x, int64_t rows, int64_t width, const float* factors);

/// to [rows,width] += x, each column times its scale [width].
void add_scaled_columns(ConstMatrix x, int64_t rows, int64_t width, const float* scales, Matrix to);

/// sums [width] += Σ over the rows of a b.
void add_column_products(ConstMatrix a, ConstMatrix b, int64_t rows, int64_t width, float* sums);

/// to [rows]: the products of the rows of a and b [rows,width].
void row_products(ConstMatrix a, ConstMatrix b, int64_t rows, int64_t width, float* to);

/// to = a * b.
void multiply_elements(const float* a, const float* b, int64_t count, float* to);

/// to [rows,width] = x of bfloat16, exactly; and x rounded to the nearest, ties to even.
void from_bfloat16(Rows<const uint16_t> x, int64_t rows, int64_t width, Matrix to);
void to_bfloat16(ConstMatrix x, int64_t rows, int64_t width, Rows<uint16_t> to);

/// to = a + b.
void add(const float* a, const float* b, int64_t count, float* to);

/// to [rows,width] = tokens[ids[r]] + positions[(first + r) % length], rows of two tables.
void add_embeddings(const float* tokens, const float* positions, const int64_t* ids, int64_t first,
                    int64_t length, int64_t rows, int64_t width, float* to);

/// The same rows of the tables' sums, tokens and positions (null: none), += grad [rows,width].
void add_embedding_grads(const float* grad, const int64_t* ids, int64_t first, int64_t length,
                         int64_t rows, int64_t width, float* tokens, float* positions);

}  // namespace lra::ops::LRA_KERNELS
