#include "attention_variants/kernels/cpu/linear_head.h"

#include <algorithm>

#include "attention_variants/kernels/cpu/head_padding.h"
#include "attention_variants/kernels/cpu/vector_math.h"

namespace lra::cpu {
namespace {

constexpr int64_t kTile = 256;  // positions

int64_t columns_of(const LinearShape& shape) { return shape.depth + (shape.normalise ? 1 : 0); }

// to [rows,width] = φ(x) with φ(x) = exp(min(x, 0)) + max(x, 0), 0 where `mask` is false.
LRA_FOR_EACH_CPU void features(ConstMatrix x, const bool* mask, int64_t rows, int64_t width,
                               float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x.data + r * x.stride;
    float* row = to + r * width;
    if (!mask[r]) {
      std::fill(row, row + width, 0.0F);
      continue;
    }
    for (int64_t c = 0; c < width; ++c)
      row[c] = exp(std::min(from[c], 0.0F)) + std::max(from[c], 0.0F);
  }
}

// grad_x = grad * φ'(x), given φ(x): 1 above 0 and φ(x) below; 0 where `mask` is false.
LRA_FOR_EACH_CPU void features_backward(ConstMatrix x, const bool* mask, const float* phi,
                                        const float* grad, int64_t rows, int64_t width,
                                        Matrix grad_x) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *from = x.data + r * x.stride, *value = phi + r * width, *given = grad + r * width;
    float* row = grad_x.data + r * grad_x.stride;
    if (!mask[r]) {
      std::fill(row, row + width, 0.0F);
      continue;
    }
    for (int64_t c = 0; c < width; ++c) row[c] = from[c] > 0.0F ? given[c] : given[c] * value[c];
  }
}

// to [rows,columns]: v, and a last column of ones where columns is one more; 0 where `mask` is
// false.
void counted(ConstMatrix v, const bool* mask, int64_t rows, int64_t width, int64_t columns,
             float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = to + r * columns;
    if (mask[r]) {
      std::copy(v[r], v[r] + width, row);
      if (columns > width) row[width] = 1;
    } else {
      std::fill(row, row + columns, 0.0F);
    }
  }
}

// out [rows,width] = the first columns of both, divided by the last where there is one more.
LRA_FOR_EACH_CPU void divided(const float* both, int64_t rows, int64_t width, int64_t columns,
                              float least, Matrix out) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = both + r * columns;
    float* row = out.data + r * out.stride;
    const float factor = columns > width ? 1 / std::max(from[width], least) : 1.0F;
    for (int64_t c = 0; c < width; ++c) row[c] = from[c] * factor;
  }
}

// both becomes its own gradient, given that of the result; 0 where `mask` is false.
LRA_FOR_EACH_CPU void divided_backward(float* both, ConstMatrix grad, const bool* mask,
                                       int64_t rows, int64_t width, int64_t columns, float least) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* given = grad.data + r * grad.stride;
    float* row = both + r * columns;
    if (!mask[r]) {
      std::fill(row, row + columns, 0.0F);
      continue;
    }
    const float factor = columns > width ? 1 / std::max(row[width], least) : 1.0F;
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t c = 0; c < width; ++c) along += given[c] * row[c];
    if (columns > width) row[width] = row[width] > least ? -along * factor * factor : 0.0F;
    for (int64_t c = 0; c < width; ++c) row[c] = given[c] * factor;
  }
}

}  // namespace

int64_t linear_saved(const LinearShape& shape) { return shape.depth * columns_of(shape); }

int64_t linear_scratch(const LinearShape& shape) {
  return kTile * (2 * shape.depth + columns_of(shape)) + linear_saved(shape);
}

void linear_forward(const LinearShape& shape, const LinearInputs& in, Matrix out, float* sums,
                    float* scratch) {
  const int64_t d = shape.depth, columns = columns_of(shape);
  const Extent extent = extent_of(in.mask, shape.length);
  Arena arena(scratch);
  const Matrix phi = arena.matrix(kTile, d), wide = arena.matrix(kTile, columns), s{sums, columns};
  zero_rows(s, 0, d, columns);
  for (int64_t begin = 0; begin < extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, extent.length - begin);
    features(in.k.from(begin), in.mask + begin, rows, d, phi.data);
    counted(in.v.from(begin), in.mask + begin, rows, d, columns, wide.data);
    multiply_at(d, columns, rows, phi, wide, s, {.product = shape.share, .old = 1});
  }
  for (int64_t begin = 0; begin < extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, extent.length - begin);
    features(in.q.from(begin), in.mask + begin, rows, d, phi.data);
    multiply(rows, columns, d, phi, s, wide);
    divided(wide.data, rows, d, columns, shape.least, out.from(begin));
  }
  zero_rows(out, extent.length, shape.length, d);
}

void linear_backward(const LinearShape& shape, const LinearInputs& in, const float* sums,
                     ConstMatrix grad_out, const LinearGradients& grad, float* scratch) {
  const int64_t d = shape.depth, columns = columns_of(shape);
  const Extent extent = extent_of(in.mask, shape.length);
  Arena arena(scratch);
  const Matrix phi = arena.matrix(kTile, d), wide = arena.matrix(kTile, columns),
               grad_phi = arena.matrix(kTile, d), grad_s = arena.matrix(d, columns);
  const ConstMatrix s{sums, columns};
  zero_rows(grad_s, 0, d, columns);
  for (int64_t begin = 0; begin < extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, extent.length - begin);
    const bool* mask = in.mask + begin;
    features(in.q.from(begin), mask, rows, d, phi.data);
    multiply(rows, columns, d, phi, s, wide);
    divided_backward(wide.data, grad_out.from(begin), mask, rows, d, columns, shape.least);
    multiply_at(d, columns, rows, phi, wide, grad_s, {.old = 1});
    multiply_bt(rows, d, columns, wide, s, grad_phi);
    features_backward(in.q.from(begin), mask, phi.data, grad_phi.data, rows, d, grad.q.from(begin));
  }
  for (int64_t begin = 0; begin < extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, extent.length - begin);
    const bool* mask = in.mask + begin;
    features(in.k.from(begin), mask, rows, d, phi.data);
    counted(in.v.from(begin), mask, rows, d, columns, wide.data);
    multiply_bt(rows, d, columns, wide, grad_s, grad_phi, {.product = shape.share});
    features_backward(in.k.from(begin), mask, phi.data, grad_phi.data, rows, d, grad.k.from(begin));
    multiply(rows, d, d, phi, grad_s, grad.v.from(begin), {.product = shape.share});
  }
  for (const Matrix& of : {grad.q, grad.k, grad.v})
    zero_padding(of, in.mask, extent, shape.length, d);
}

}  // namespace lra::cpu
