#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/feature_maps.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/transpose.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr int64_t kTile = 128;  // positions: with 256 features 128 KiB

// x [rows,width] = (x + row) * factor.
void add_and_scale(Matrix x, int64_t rows, int64_t width, const float* row, float factor) {
  for (int64_t r = 0; r < rows; ++r) {
    float* to = x.data + r * x.stride;
    for (int64_t c = 0; c < width; ++c) to[c] = (to[c] + row[c]) * factor;
  }
}

// out [rows,width] = (out + row) / max(e z + share, least), e [rows,features]; the divisor without
// its bound is kept.
void divide(const float* e, int64_t features, const float* z, float share, float denominator_min,
            const float* row, Matrix out, int64_t rows, int64_t width, float* denominators) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = e + r * features;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < features; ++c) sum += from[c] * z[c];
    denominators[r] = sum + share;
    const float factor = 1 / std::max(denominators[r], denominator_min);
    float* to = out.data + r * out.stride;
    for (int64_t c = 0; c < width; ++c) to[c] = (to[c] + row[c]) * factor;
  }
}

// The gradients of what divide() divides, to [rows,width], and of the divisors; 0 where `mask` is
// false.
void divide_backward(ConstMatrix out, ConstMatrix grad, const float* denominators,
                     float denominator_min, const bool* mask, int64_t rows, int64_t width,
                     float* to, float* grad_denominators) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *given = grad.data + r * grad.stride, *result = out.data + r * out.stride;
    float* row = to + r * width;
    if (!mask[r]) {
      std::fill(row, row + width, 0.0F);
      grad_denominators[r] = 0;
      continue;
    }
    const float factor = 1 / std::max(denominators[r], denominator_min);
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t c = 0; c < width; ++c) along += given[c] * result[c];
    for (int64_t c = 0; c < width; ++c) row[c] = given[c] * factor;
    grad_denominators[r] = denominators[r] > denominator_min ? -along * factor : 0.0F;
  }
}

// The parts of one pass over one head.
struct Pass {
  Pass(const FeatureShape& s, const FeatureInputs& i, float* scratch)
      : shape(s),
        in(i),
        extent(extent_of(i.mask, s.length)),
        keys(s.count_padding ? s.length : extent.length),
        arena(scratch),
        e(arena.take(kTile * s.width)),
        x_copy(arena.take(kTile * s.depth)),
        v_copy(arena.take(kTile * s.depth)),
        w(turned_matrix()),
        transposed(turned_matrix()) {
    if (s.projection != nullptr) transpose({s.projection, s.depth}, s.width, s.depth, w);
  }

  FeatureTile tile(ConstMatrix of, int64_t begin, int64_t rows) {
    return {.x = without_padding(of.from(begin), in.mask + begin, rows, shape.depth, x_copy),
            .rows = rows,
            .phases = in.phases == nullptr ? nullptr : in.phases + 2 * begin,
            .e = e};
  }
  ConstMatrix values(int64_t begin, int64_t rows) {
    return without_padding(in.v.from(begin), in.mask + begin, rows, shape.depth, v_copy);
  }
  // Of keys; null = all.
  const bool* seen(int64_t begin) const { return shape.count_padding ? nullptr : in.mask + begin; }
  // xᵀ of x [f,d], until the next one: once, and not for every tile.
  ConstMatrix turn(ConstMatrix x) const {
    transpose(x, shape.width, shape.depth, transposed);
    return transposed;
  }
  // `count` floats of zero.
  float* zeros(int64_t count) {
    float* taken = arena.take(count);
    std::fill(taken, taken + count, 0.0F);
    return taken;
  }

  const FeatureShape& shape;
  const FeatureInputs& in;
  const TokenSpan extent;
  const int64_t keys;  // positions
  OpenArena arena;
  float *const e, *const x_copy, *const v_copy;  // [kTile,f], [kTile,d] twice
  const Matrix w, transposed;                    // [d,f]: Wᵀ, and what turn() gives

 private:
  Matrix turned_matrix() {
    const int64_t stride = transposed_stride(shape.width);
    return {arena.take(shape.depth * stride), stride};
  }
};

// S of all keys, without its share.
void sum_keys(Pass& pass, const FeatureState& state) {
  const FeatureShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  const Matrix s{state.sums, d};
  float *const z = state.sums + f * d, *const v_sum = pass.zeros(d);
  std::fill(state.sums, state.sums + feature_sums(shape), 0.0F);
  *state.largest = -std::numeric_limits<float>::infinity();
  state.where[0] = state.where[1] = 0;
  int64_t count = 0;
  for (int64_t begin = 0; begin < pass.keys; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.keys - begin);
    const bool* seen = pass.seen(begin);
    const FeatureTile tile = pass.tile(pass.in.k, begin, rows);
    const ConstMatrix v = pass.values(begin, rows);
    project(shape, pass.w, tile);
    if (shape.map == FeatureMap::softmax) {
      const Largest found = largest_of(tile.e, seen, rows, f);
      if (found.value > *state.largest) {
        // What stands in the sums was made with the old c.
        const float factor = std::exp(*state.largest - found.value);
        for (int64_t i = 0; i < feature_sums(shape); ++i) state.sums[i] *= factor;
        *state.largest = found.value;
        state.where[0] = begin + found.row;
        state.where[1] = found.feature;
      }
    }
    key_features(shape, tile, seen, *state.largest);
    gemm_tn(f, d, rows, {tile.e, f}, v, s, {.old = 1});
    add_column_sums({tile.e, f}, rows, f, z);
    add_column_sums(v, rows, d, v_sum);
    count += seen == nullptr ? rows : std::count(seen, seen + rows, true);
  }
  for (int64_t i = 0; i < d; ++i) v_sum[i] *= shape.offset;
  add_and_scale(s, f, d, v_sum, shape.share);
  for (int64_t i = 0; i < f; ++i) z[i] += shape.offset * static_cast<float>(count);
}

}  // namespace

int64_t feature_sums(const FeatureShape& shape) { return shape.width * (shape.depth + 1); }

int64_t feature_scratch(const FeatureShape& shape) {
  return kTile * (2 * shape.width + 3 * shape.depth + 2) + feature_sums(shape) + 2 * shape.depth +
         2 * shape.depth * transposed_stride(shape.width);
}

void feature_forward(const FeatureShape& shape, const FeatureInputs& in, Matrix out,
                     const FeatureState& state, float* scratch) {
  Pass pass(shape, in, scratch);
  sum_keys(pass, state);
  const int64_t f = shape.width, d = shape.depth;
  const ConstMatrix s{state.sums, d};
  const float* const z = state.sums + f * d;
  float* const s_sum = pass.zeros(d);
  add_column_sums(s, f, d, s_sum);
  for (int64_t i = 0; i < d; ++i) s_sum[i] *= shape.offset;
  float z_sum = 0;
  for (int64_t i = 0; i < f; ++i) z_sum += shape.offset * z[i];
  for (int64_t begin = 0; begin < pass.extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.extent.length - begin);
    const FeatureTile tile = pass.tile(in.q, begin, rows);
    project(shape, pass.w, tile);
    query_features(shape, tile, nullptr);
    gemm(rows, d, f, {tile.e, f}, s, out.from(begin));
    if (shape.normalise) {
      divide(tile.e, f, z, z_sum, shape.denominator_min, s_sum, out.from(begin), rows, d,
             state.denominators + begin);
    } else {
      add_and_scale(out.from(begin), rows, d, s_sum, 1);
    }
  }
  zero_padding(out, in.mask, pass.extent, shape.length, d);
}

void feature_backward(const FeatureShape& shape, const FeatureInputs& in, ConstMatrix out,
                      const FeatureState& state, ConstMatrix grad_out, const FeatureGradients& grad,
                      float* scratch) {
  Pass pass(shape, in, scratch);
  const int64_t f = shape.width, d = shape.depth;
  const ConstMatrix s = pass.turn({state.sums, d});  // [d,f]
  const float* const z = state.sums + f * d;
  const Matrix grad_e{pass.arena.take(kTile * f), f}, grad_row{pass.arena.take(kTile * d), d};
  float *const grad_denominators = pass.arena.take(kTile), *const largest = pass.arena.take(kTile),
               *const grad_sums = pass.zeros(f * (d + 1)), *const row_sum = pass.zeros(d),
               *const grad_z = grad_sums + f * d;
  const Matrix grad_s{grad_sums, d};
  // The denominator is a constant where there is none.
  std::fill(grad_denominators, grad_denominators + kTile, 0.0F);
  float denominator_sum = 0;
  for (int64_t begin = 0; begin < pass.extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.extent.length - begin);
    const bool* mask = in.mask + begin;
    const FeatureTile tile = pass.tile(in.q, begin, rows);
    project(shape, pass.w, tile);
    query_features(shape, tile, largest);
    ConstMatrix g = grad_row;
    if (shape.normalise) {
      divide_backward(out.from(begin), grad_out.from(begin), state.denominators + begin,
                      shape.denominator_min, mask, rows, d, grad_row.data, grad_denominators);
      add_column_sums({tile.e, f}, rows, f, grad_z, grad_denominators);
      for (int64_t r = 0; r < rows; ++r) denominator_sum += grad_denominators[r];
    } else {
      g = without_padding(grad_out.from(begin), mask, rows, d, grad_row.data);
    }
    gemm_tn(f, d, rows, {tile.e, f}, g, grad_s, {.old = 1});
    add_column_sums(g, rows, d, row_sum);
    gemm(rows, f, d, g, s, grad_e);
    features_backward(shape, tile, {.grad = grad_e.data, .weights = grad_denominators, .row = z},
                      largest, grad.q.from(begin));
  }
  for (int64_t i = 0; i < d; ++i) row_sum[i] *= shape.offset;
  add_and_scale(grad_s, f, d, row_sum, shape.share);
  for (int64_t i = 0; i < f; ++i) grad_z[i] += shape.offset * denominator_sum;
  std::fill(row_sum, row_sum + d, 0.0F);
  add_column_sums(grad_s, f, d, row_sum);
  for (int64_t i = 0; i < d; ++i) row_sum[i] *= shape.offset;
  const ConstMatrix grad_s_turned = pass.turn(grad_s);
  float grad_largest = 0;
  for (int64_t begin = 0; begin < pass.keys; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.keys - begin);
    const FeatureTile tile = pass.tile(in.k, begin, rows);
    project(shape, pass.w, tile);
    key_features(shape, tile, pass.seen(begin), *state.largest);
    gemm(rows, f, d, pass.values(begin, rows), grad_s_turned, grad_e);
    gemm(rows, d, f, {tile.e, f}, grad_s, grad.v.from(begin));
    add_and_scale(grad.v.from(begin), rows, d, row_sum, 1);
    grad_largest -=
        features_backward(shape, tile, {.grad = grad_e.data, .weights = nullptr, .row = grad_z},
                          nullptr, grad.k.from(begin));
  }
  if (shape.map == FeatureMap::softmax && pass.keys > 0) {
    const float* w = shape.projection + state.where[1] * d;
    float* to = grad.k[state.where[0]];
    for (int64_t i = 0; i < d; ++i) to[i] += grad_largest * w[i];
  }
  for (const Matrix& of : {grad.q, grad.k, grad.v})
    zero_padding(of, in.mask, pass.extent, shape.length, d);
}

}  // namespace lra::ops::cpu::LRA_ISA
