#include <algorithm>
#include <numeric>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention_pass.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// The gradients of what divide() divides, to [rows,width], and of the divisors; 0 where `mask` is
// false.
void divide_backward(ConstMatrix out, ConstMatrix grad, const float* denominators,
                     float denominator_min, const bool* mask, int64_t rows, int64_t width,
                     float* to, float* grad_denominators) {
  for (int64_t r = 0; r < rows; ++r) {
    prefetch_rows(grad, r + kRowsAhead, 1, width);
    prefetch_rows(out, r + kRowsAhead, 1, width);
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

// Writes the gradient of q in a range, and adds up those of S and of its last column.
void queries_backward(const HeadPass& pass, const PositionRange& range, ConstMatrix s,
                      ConstMatrix out, const LinearHeadState& state, ConstMatrix grad_out,
                      Matrix grad_q, QuerySums& to, const LinearHeadBackwardPartScratch& own) {
  const LinearHeadShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  const float* const z = state.sums + f * d;
  float* const grad_denominators = own.grad_denominators;
  const float* const of_largest =
      shape.max_gradient == MaxGradient::attached ? own.largest : nullptr;
  std::fill(to.s, to.s + f * d, 0.0F);
  std::fill(to.z, to.z + f, 0.0F);
  std::fill(to.rows, to.rows + d, 0.0F);
  float denominators = 0;
  // The denominator is a constant where there is none.
  std::fill(grad_denominators, grad_denominators + kFeatureTile, 0.0F);
  for (int64_t begin = range.begin; begin < range.end; begin += kFeatureTile) {
    const int64_t rows = std::min(kFeatureTile, range.end - begin);
    const bool* mask = pass.in.mask + begin;
    const FeatureTile tile = pass.tile(pass.in.q, begin, rows, own);
    project(shape, pass.w, tile);
    query_features(shape, tile, own.largest);
    ConstMatrix g = own.grad_row;
    if (shape.normalise) {
      divide_backward(out.from(begin), grad_out.from(begin), state.denominators + begin,
                      shape.denominator_min, mask, rows, d, own.grad_row.data, grad_denominators);
      add_column_sums({tile.e, f}, rows, f, to.z, grad_denominators);
      for (int64_t r = 0; r < rows; ++r) denominators += grad_denominators[r];
    } else {
      g = without_padding(grad_out.from(begin), mask, rows, d, own.grad_row.data);
    }
    gemm_tn(f, d, rows, {tile.e, f}, g, {to.s, d}, {.old = 1});
    add_column_sums(g, rows, d, to.rows);
    gemm(rows, f, d, g, s, own.grad_e);
    features_backward(shape, tile,
                      {.grad = own.grad_e.data, .weights = grad_denominators, .row = z}, of_largest,
                      grad_q.from(begin));
  }
  to.denominators = denominators;
}

// The same of all queries; returns the gradients of S and of its last column.
const QuerySums& all_queries_backward(const HeadPass& pass,
                                      const LinearHeadBackwardScratch& scratch, ConstMatrix out,
                                      const LinearHeadState& state, ConstMatrix grad_out,
                                      Matrix grad_q, const Team& team) {
  const LinearHeadShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth, size = shape.sums() + d,
                stride = whole_lines(size);
  transpose({state.sums, d}, f, d, scratch.s);
  team.for_each(team.parts(), [&](int64_t part, Arena& arena) {
    float* const sums = scratch.sums + part * stride;
    QuerySums& of_part = scratch.queries[part];
    of_part.s = sums;
    of_part.z = sums + f * d;
    of_part.rows = of_part.z + f;
    queries_backward(pass, team.range(part, pass.span.length, kFeatureTile), scratch.s, out, state,
                     grad_out, grad_q, of_part, LinearHeadBackwardPartScratch(shape, arena));
  });
  QuerySums& all = scratch.queries[0];
  for (int64_t part = 1; part < team.parts(); ++part) {
    add(scratch.sums, scratch.sums + part * stride, size, scratch.sums);
    all.denominators += scratch.queries[part].denominators;
  }
  for (int64_t i = 0; i < d; ++i) all.rows[i] *= shape.offset;
  add_and_scale({all.s, d}, f, d, all.rows, shape.share);
  for (int64_t i = 0; i < f; ++i) all.z[i] += shape.offset * all.denominators;
  return all;
}

// Given these, writes the gradients of k and v in a range; returns that of c.
float keys_backward(const HeadPass& pass, const PositionRange& range, const QuerySums& of,
                    ConstMatrix transposed, const float* row_sum, float largest, Matrix grad_k,
                    Matrix grad_v, const LinearHeadBackwardPartScratch& own) {
  const LinearHeadShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  float grad_largest = 0;
  for (int64_t begin = range.begin; begin < range.end; begin += kFeatureTile) {
    const int64_t rows = std::min(kFeatureTile, range.end - begin);
    const FeatureTile tile = pass.tile(pass.in.k, begin, rows, own);
    project(shape, pass.w, tile);
    key_features(shape, tile, pass.seen(begin), largest);
    gemm(rows, f, d, pass.values(begin, rows, own), transposed, own.grad_e);
    gemm(rows, d, f, {tile.e, f}, {of.s, d}, grad_v.from(begin));
    add_and_scale(grad_v.from(begin), rows, d, row_sum, 1);
    grad_largest -=
        features_backward(shape, tile, {.grad = own.grad_e.data, .weights = nullptr, .row = of.z},
                          nullptr, grad_k.from(begin));
  }
  return grad_largest;
}

void all_keys_backward(const HeadPass& pass, const LinearHeadBackwardScratch& scratch,
                       const LinearHeadState& state, const QuerySums& of,
                       const LinearHeadGradients& grad, const Team& team) {
  const LinearHeadShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  const float* const row_sum = column_sums({of.s, d}, f, d, shape.offset, scratch.row);
  transpose({of.s, d}, f, d, scratch.s);
  team.for_each(team.parts(), [&](int64_t part, Arena& arena) {
    scratch.grad_largest[part] =
        keys_backward(pass, team.range(part, pass.keys, kFeatureTile), of, scratch.s, row_sum,
                      *state.largest, grad.k, grad.v, LinearHeadBackwardPartScratch(shape, arena));
  });
  if (shape.map != FeatureMap::softmax || shape.max_gradient == MaxGradient::detached ||
      pass.keys == 0)
    return;
  const float grad_largest =
      std::accumulate(scratch.grad_largest, scratch.grad_largest + team.parts(), 0.0F);
  if (grad.largest != nullptr) {
    *grad.largest = grad_largest;
    return;
  }
  const float* const row = shape.projection + state.where[1] * d;
  float* const to = grad.k[state.where[0]];
  for (int64_t i = 0; i < d; ++i) to[i] += grad_largest * row[i];
}

}  // namespace

void linear_attention_backward(const LinearHeadShape& shape, const LinearHeadInputs& in,
                               ConstMatrix out, const LinearHeadState& state, ConstMatrix grad_out,
                               const LinearHeadGradients& grad, Arena& arena, const Team& team) {
  const Arena::Frame frame(arena);
  const LinearHeadBackwardScratch scratch(shape, team.parts(), arena);
  const HeadPass pass(shape, in, scratch.w);
  const QuerySums& of = all_queries_backward(pass, scratch, out, state, grad_out, grad.q, team);
  if (grad.largest != nullptr) *grad.largest = 0;
  all_keys_backward(pass, scratch, state, of, grad, team);
  for (const Matrix& of_input : {grad.q, grad.k, grad.v})
    zero_padding(of_input, in.mask, pass.span, shape.length, shape.depth);
}

}  // namespace lra::ops::cpu::LRA_ISA
