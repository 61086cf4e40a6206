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

constexpr int64_t kTile = kFeatureTile;

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

// What both passes over one head read.
struct HeadPass {
  HeadPass(const FeatureShape& given_shape, const FeatureInputs& inputs,
           const FeatureScratch& given_scratch)
      : shape(given_shape),
        in(inputs),
        scratch(given_scratch),
        extent(extent_of(inputs.mask, given_shape.length)),
        keys(given_shape.count_padding ? given_shape.length : extent.length) {
    if (shape.projection != nullptr)
      transpose({shape.projection, shape.depth}, shape.width, shape.depth, scratch.w);
  }

  FeatureTile tile(ConstMatrix of, int64_t begin, int64_t rows) const {
    return {.x = without_padding(of.from(begin), in.mask + begin, rows, shape.depth, scratch.x),
            .rows = rows,
            .phases = in.phases == nullptr ? nullptr : in.phases + 2 * begin,
            .e = scratch.e};
  }
  ConstMatrix values(int64_t begin, int64_t rows) const {
    return without_padding(in.v.from(begin), in.mask + begin, rows, shape.depth, scratch.v);
  }
  // Of keys; null = all.
  const bool* seen(int64_t begin) const { return shape.count_padding ? nullptr : in.mask + begin; }
  // The row of sums, of zeros.
  float* zero_row() const {
    std::fill(scratch.row, scratch.row + shape.depth, 0.0F);
    return scratch.row;
  }

  const FeatureShape& shape;
  const FeatureInputs& in;
  const FeatureScratch& scratch;
  const TokenSpan extent;
  const int64_t keys;  // positions
};

// S of all keys, without its share.
void sum_keys(const HeadPass& pass, const FeatureState& state) {
  const FeatureShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  const Matrix s{state.sums, d};
  float *const z = state.sums + f * d, *const v_sum = pass.zero_row();
  std::fill(state.sums, state.sums + shape.sums(), 0.0F);
  *state.largest = -std::numeric_limits<float>::infinity();
  state.where[0] = state.where[1] = 0;
  int64_t count = 0;
  for (int64_t begin = 0; begin < pass.keys; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.keys - begin);
    const bool* seen = pass.seen(begin);
    const FeatureTile tile = pass.tile(pass.in.k, begin, rows);
    const ConstMatrix v = pass.values(begin, rows);
    project(shape, pass.scratch.w, tile);
    if (shape.map == FeatureMap::softmax) {
      const Largest found = largest_of(tile.e, seen, rows, f);
      if (found.value > *state.largest) {
        // What stands in the sums was made with the old c.
        const float factor = std::exp(*state.largest - found.value);
        for (int64_t i = 0; i < shape.sums(); ++i) state.sums[i] *= factor;
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

// Writes the gradient of q, and adds up those of S and of its last column.
void queries_backward(const HeadPass& pass, const FeatureBackwardScratch& scratch, ConstMatrix out,
                      const FeatureState& state, ConstMatrix grad_out, Matrix grad_q) {
  const FeatureShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  const float* const z = state.sums + f * d;
  float *const row_sum = pass.zero_row(), *const grad_denominators = scratch.grad_denominators;
  transpose({state.sums, d}, f, d, scratch.s);
  std::fill(scratch.grad_s.data, scratch.grad_s.data + f * d, 0.0F);
  std::fill(scratch.grad_z, scratch.grad_z + f, 0.0F);
  // The denominator is a constant where there is none.
  std::fill(grad_denominators, grad_denominators + kTile, 0.0F);
  float denominator_sum = 0;
  for (int64_t begin = 0; begin < pass.extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.extent.length - begin);
    const bool* mask = pass.in.mask + begin;
    const FeatureTile tile = pass.tile(pass.in.q, begin, rows);
    project(shape, scratch.w, tile);
    query_features(shape, tile, scratch.largest);
    ConstMatrix g = scratch.grad_row;
    if (shape.normalise) {
      divide_backward(out.from(begin), grad_out.from(begin), state.denominators + begin,
                      shape.denominator_min, mask, rows, d, scratch.grad_row.data,
                      grad_denominators);
      add_column_sums({tile.e, f}, rows, f, scratch.grad_z, grad_denominators);
      for (int64_t r = 0; r < rows; ++r) denominator_sum += grad_denominators[r];
    } else {
      g = without_padding(grad_out.from(begin), mask, rows, d, scratch.grad_row.data);
    }
    gemm_tn(f, d, rows, {tile.e, f}, g, scratch.grad_s, {.old = 1});
    add_column_sums(g, rows, d, row_sum);
    gemm(rows, f, d, g, scratch.s, scratch.grad_e);
    features_backward(shape, tile,
                      {.grad = scratch.grad_e.data, .weights = grad_denominators, .row = z},
                      scratch.largest, grad_q.from(begin));
  }
  for (int64_t i = 0; i < d; ++i) row_sum[i] *= shape.offset;
  add_and_scale(scratch.grad_s, f, d, row_sum, shape.share);
  for (int64_t i = 0; i < f; ++i) scratch.grad_z[i] += shape.offset * denominator_sum;
}

// Given these, writes the gradients of k and v.
void keys_backward(const HeadPass& pass, const FeatureBackwardScratch& scratch,
                   const FeatureState& state, Matrix grad_k, Matrix grad_v) {
  const FeatureShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  float* const row_sum = pass.zero_row();
  add_column_sums(scratch.grad_s, f, d, row_sum);
  for (int64_t i = 0; i < d; ++i) row_sum[i] *= shape.offset;
  const Matrix grad_s_transposed = scratch.s;
  transpose(scratch.grad_s, f, d, grad_s_transposed);
  float grad_largest = 0;
  for (int64_t begin = 0; begin < pass.keys; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.keys - begin);
    const FeatureTile tile = pass.tile(pass.in.k, begin, rows);
    project(shape, scratch.w, tile);
    key_features(shape, tile, pass.seen(begin), *state.largest);
    gemm(rows, f, d, pass.values(begin, rows), grad_s_transposed, scratch.grad_e);
    gemm(rows, d, f, {tile.e, f}, scratch.grad_s, grad_v.from(begin));
    add_and_scale(grad_v.from(begin), rows, d, row_sum, 1);
    grad_largest -= features_backward(
        shape, tile, {.grad = scratch.grad_e.data, .weights = nullptr, .row = scratch.grad_z},
        nullptr, grad_k.from(begin));
  }
  if (shape.map == FeatureMap::softmax && pass.keys > 0) {
    const float* w = shape.projection + state.where[1] * d;
    float* to = grad_k[state.where[0]];
    for (int64_t i = 0; i < d; ++i) to[i] += grad_largest * w[i];
  }
}

}  // namespace

void feature_forward(const FeatureShape& shape, const FeatureInputs& in, Matrix out,
                     const FeatureState& state, Arena& arena) {
  const Arena::Frame frame(arena);
  const FeatureScratch scratch(shape, arena);
  const HeadPass pass(shape, in, scratch);
  sum_keys(pass, state);
  const int64_t f = shape.width, d = shape.depth;
  const ConstMatrix s{state.sums, d};
  const float* const z = state.sums + f * d;
  float* const s_sum = pass.zero_row();
  add_column_sums(s, f, d, s_sum);
  for (int64_t i = 0; i < d; ++i) s_sum[i] *= shape.offset;
  float z_sum = 0;
  for (int64_t i = 0; i < f; ++i) z_sum += shape.offset * z[i];
  for (int64_t begin = 0; begin < pass.extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, pass.extent.length - begin);
    const FeatureTile tile = pass.tile(in.q, begin, rows);
    project(shape, pass.scratch.w, tile);
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
                      Arena& arena) {
  const Arena::Frame frame(arena);
  const FeatureBackwardScratch scratch(shape, arena);
  const HeadPass pass(shape, in, scratch);
  queries_backward(pass, scratch, out, state, grad_out, grad.q);
  keys_backward(pass, scratch, state, grad.k, grad.v);
  for (const Matrix& of : {grad.q, grad.k, grad.v})
    zero_padding(of, in.mask, pass.extent, shape.length, shape.depth);
}

}  // namespace lra::ops::cpu::LRA_ISA
