// Sums of what blocks have left of a parameter's gradient.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

/// sum[c] of parts[p][c] over p, in an order that depends on `count` alone.
struct PartSums {
  const float* parts = nullptr;  // [count,columns]
  int64_t count = 0, columns = 0;
  float* sum = nullptr;  // [columns]
};

/// Of one or two such sums, in one launch; no columns: there is no second.
struct SumPartsParams {
  PartSums first, second;
};

/// Parts of the sums over rows of x [rows,columns]: those of stretches of dropout_rows_of_part()
/// rows, before launch_sum_parts().
struct ColumnPartsParams {
  Storage storage;
  const void* x;
  int64_t rows;
  int columns;
  float* parts;  // [dropout_rows_parts(rows),columns]
};

void launch_column_parts(const ColumnPartsParams& params, Stream stream);

void launch_sum_parts(const SumPartsParams& params, Stream stream);

}  // namespace lra::ops::cuda
