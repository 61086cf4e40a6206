// What the forward and the backward pass over one head of linear_attention.h share.
#pragma once

#include <algorithm>

#include "attention_variants/ops/cpu/kernels/heads/feature_maps.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/transpose.h"

namespace lra::ops::LRA_KERNELS {

// x [rows,width] = (x + row) * factor.
inline void add_and_scale(Matrix x, int64_t rows, int64_t width, const float* row, float factor) {
  for (int64_t r = 0; r < rows; ++r) {
    float* to = x.data + r * x.stride;
    for (int64_t c = 0; c < width; ++c) to[c] = (to[c] + row[c]) * factor;
  }
}

// What both passes over one head read; `projection` is room for Wᵀ, which it makes.
struct HeadPass {
  HeadPass(const LinearHeadShape& given_shape, const LinearHeadInputs& inputs, Matrix projection)
      : shape(given_shape),
        in(inputs),
        w(projection),
        span(span_of(inputs.mask, given_shape.length)),
        keys(given_shape.count_padding ? given_shape.length : span.length) {
    prepare_projection(shape, w);
  }

  FeatureTile tile(ConstMatrix of, int64_t begin, int64_t rows,
                   const LinearHeadPartScratch& own) const {
    return {.x = without_padding(of.from(begin), in.mask + begin, rows, shape.depth, own.x),
            .rows = rows,
            .phases = in.phases == nullptr ? nullptr : in.phases + 2 * begin,
            .e = own.e};
  }
  ConstMatrix values(int64_t begin, int64_t rows, const LinearHeadPartScratch& own) const {
    prefetch_rows(in.v, begin, rows, shape.depth);  // read after the features of their keys
    return without_padding(in.v.from(begin), in.mask + begin, rows, shape.depth, own.v);
  }
  // Of keys; null = all.
  const bool* seen(int64_t begin) const { return shape.count_padding ? nullptr : in.mask + begin; }

  const LinearHeadShape& shape;
  const LinearHeadInputs& in;
  const Matrix w;
  const TokenSpan span;
  const int64_t keys;  // positions
};

// row [width] = factor times the sums of the columns of x [rows,width].
inline float* column_sums(ConstMatrix x, int64_t rows, int64_t width, float factor, float* row) {
  std::fill(row, row + width, 0.0F);
  add_column_sums(x, rows, width, row);
  for (int64_t i = 0; i < width; ++i) row[i] *= factor;
  return row;
}

}  // namespace lra::ops::LRA_KERNELS
