#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention_pass.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// out [rows,d] = (out + row) / (e z + share), e [rows,f]; the divisor without its lower bound is
// kept.
void divide(const LinearHeadShape& shape, const float* e, const float* z, float share,
            const float* row, Matrix out, int64_t rows, float* denominators) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = e + r * shape.width;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < shape.width; ++c) sum += from[c] * z[c];
    sum += share + shape.epsilon;
    if (shape.guard != 0 && std::abs(sum) <= shape.guard) sum += 2 * shape.guard;
    denominators[r] = sum;
    const float factor = 1 / std::max(sum, shape.denominator_min);
    float* to = out.data + r * out.stride;
    for (int64_t c = 0; c < shape.depth; ++c) to[c] = (to[c] + row[c]) * factor;
  }
}

float sum_of(const float* x, int64_t count, float factor) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += factor * x[i];
  return sum;
}

// Makes the sums those with another c, larger than theirs: e is exp(.. - c).
void lower(const LinearHeadShape& shape, float largest, KeySums& sums) {
  const float factor = std::exp(sums.largest - largest);
  for (int64_t i = 0; i < shape.sums(); ++i) sums.sums[i] *= factor;
  sums.largest = largest;
}

// S of the keys of a range, without its share.
void sum_keys(const HeadPass& pass, const PositionRange& range, KeySums& to,
              const LinearHeadPartScratch& own) {
  const LinearHeadShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  std::fill(to.sums, to.sums + shape.sums(), 0.0F);
  std::fill(to.values, to.values + d, 0.0F);
  to.largest = pass.in.largest.value_or(-std::numeric_limits<float>::infinity());
  to.row = to.feature = to.count = 0;
  for (int64_t begin = range.begin; begin < range.end; begin += kFeatureTile) {
    const int64_t rows = std::min(kFeatureTile, range.end - begin);
    const bool* seen = pass.seen(begin);
    const FeatureTile tile = pass.tile(pass.in.k, begin, rows, own);
    const ConstMatrix v = pass.values(begin, rows, own);
    project(shape, pass.w, tile);
    if (shape.map == FeatureMap::softmax && !pass.in.largest) {
      const Largest found = largest_of(tile.e, seen, rows, f);
      if (found.value > to.largest) {
        lower(shape, found.value, to);
        to.row = begin + found.row;
        to.feature = found.feature;
      }
    }
    key_features(shape, tile, seen, to.largest);
    gemm_tn(f, d, rows, {tile.e, f}, v, {to.sums, d}, {.old = 1});
    add_column_sums({tile.e, f}, rows, f, to.sums + f * d);
    add_column_sums(v, rows, d, to.values);
    to.count += seen == nullptr ? rows : std::count(seen, seen + rows, true);
  }
}

// To those of earlier keys.
void join_keys(const LinearHeadShape& shape, KeySums& from, KeySums& to) {
  add(to.values, from.values, shape.depth, to.values);
  to.count += from.count;
  if (shape.map == FeatureMap::softmax && from.largest != to.largest) {
    if (from.largest == -std::numeric_limits<float>::infinity()) return;  // none was seen
    if (from.largest > to.largest) {
      lower(shape, from.largest, to);
      to.row = from.row;
      to.feature = from.feature;
    } else {
      lower(shape, to.largest, from);
    }
  }
  add(to.sums, from.sums, shape.sums(), to.sums);
}

// S of all keys.
void sum_all_keys(const HeadPass& pass, const LinearHeadState& state,
                  const LinearHeadScratch& scratch, const Team& team) {
  const LinearHeadShape& shape = pass.shape;
  const int64_t f = shape.width, d = shape.depth;
  team.for_each(team.parts(), [&](int64_t part, Arena& arena) {
    KeySums& of_part = scratch.keys[part];
    of_part.sums = part == 0 ? state.sums : scratch.sums + (part - 1) * whole_lines(shape.sums());
    of_part.values = scratch.values[part];
    sum_keys(pass, team.range(part, pass.keys, kFeatureTile), of_part,
             LinearHeadPartScratch(shape, arena));
  });
  KeySums& all = scratch.keys[0];
  for (int64_t part = 1; part < team.parts(); ++part) join_keys(shape, scratch.keys[part], all);
  *state.largest = all.largest;
  state.where[0] = all.row;
  state.where[1] = all.feature;
  for (int64_t i = 0; i < d; ++i) all.values[i] *= shape.offset;
  add_and_scale({state.sums, d}, f, d, all.values, shape.share);
  float* const z = state.sums + f * d;
  for (int64_t i = 0; i < f; ++i) z[i] += shape.offset * static_cast<float>(all.count);
}

}  // namespace

void linear_attention_forward(const LinearHeadShape& shape, const LinearHeadInputs& in, Matrix out,
                              const LinearHeadState& state, Arena& arena, const Team& team) {
  const Arena::Frame frame(arena);
  const LinearHeadScratch scratch(shape, team.parts(), arena);
  const HeadPass pass(shape, in, scratch.w);
  sum_all_keys(pass, state, scratch, team);
  const int64_t f = shape.width, d = shape.depth;
  const ConstMatrix s{state.sums, d};
  const float* const z = state.sums + f * d;
  const float* const s_sum = column_sums(s, f, d, shape.offset, scratch.row);
  const float z_sum = sum_of(z, f, shape.offset);
  team.for_each(team.parts(), [&](int64_t part, Arena& of_part) {
    const LinearHeadPartScratch own(shape, of_part);
    const PositionRange range = team.range(part, pass.span.length, kFeatureTile);
    for (int64_t begin = range.begin; begin < range.end; begin += kFeatureTile) {
      const int64_t rows = std::min(kFeatureTile, range.end - begin);
      const FeatureTile tile = pass.tile(in.q, begin, rows, own);
      project(shape, pass.w, tile);
      query_features(shape, tile, nullptr);
      gemm(rows, d, f, {tile.e, f}, s, out.from(begin));
      if (shape.normalise) {
        divide(shape, tile.e, z, z_sum, s_sum, out.from(begin), rows, state.denominators + begin);
      } else {
        add_and_scale(out.from(begin), rows, d, s_sum, 1);
      }
    }
  });
  zero_padding(out, in.mask, pass.span, shape.length, d);
}

Largest feature_largest(const LinearHeadShape& shape, const LinearHeadInputs& in, Arena& arena) {
  const Arena::Frame frame(arena);
  const LinearHeadLargestScratch scratch(shape, arena);
  const HeadPass pass(shape, in, scratch.w);
  Largest all{.value = -std::numeric_limits<float>::infinity()};
  for (int64_t begin = 0; begin < pass.keys; begin += kFeatureTile) {
    const int64_t rows = std::min(kFeatureTile, pass.keys - begin);
    const FeatureTile tile = pass.tile(in.k, begin, rows, scratch.part);
    project(shape, pass.w, tile);
    const Largest found = largest_of(tile.e, pass.seen(begin), rows, shape.width);
    if (found.value > all.value)
      all = {.value = found.value, .row = begin + found.row, .feature = found.feature};
  }
  return all;
}

}  // namespace lra::ops::cpu::LRA_ISA
