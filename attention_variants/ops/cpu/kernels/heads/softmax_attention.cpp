#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"

#include <algorithm>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

SmallAttentionShape tile_shape(const SoftmaxShape& shape, int64_t keys, int64_t queries) {
  return {.length = keys,
          .few = queries,
          .depth = shape.depth,
          .values = shape.values,
          .scale = shape.scale};
}

// That of the queries from `begin` on.
WeightDropout dropout_from(const SoftmaxShape& shape, WeightDropout dropout, int64_t begin) {
  dropout.first_block += begin / kQueryTile * shape.keys;
  return dropout;
}

TokenSpan extent_or_all(const bool* mask, int64_t length) {
  return mask == nullptr ? TokenSpan{.length = length, .holes = false} : extent_of(mask, length);
}

// Rows [begin, begin + rows) of x, those that `mask` leaves out zero.
ConstMatrix asking(ConstMatrix x, const bool* mask, int64_t begin, int64_t rows, int64_t width,
                   float* copy) {
  if (mask == nullptr) return x.from(begin);
  return without_padding(x.from(begin), mask + begin, rows, width, copy);
}

void clear_silent(Matrix x, const bool* mask, int64_t begin, int64_t rows, int64_t width) {
  for (int64_t t = begin; mask != nullptr && t < begin + rows; ++t) {
    if (!mask[t]) std::fill(x[t], x[t] + width, 0.0F);
  }
}

}  // namespace

int64_t softmax_scratch(const SoftmaxShape& shape, InnerPadding holes) {
  return (holes == InnerPadding::yes ? shape.keys * (shape.depth + shape.values) : 0) +
         kQueryTile * shape.depth +
         tile_scratch(tile_shape(shape, 0, std::min(kQueryTile, shape.queries)));
}

int64_t softmax_backward_scratch(const SoftmaxShape& shape, InnerPadding holes) {
  return softmax_scratch(shape, holes) + kQueryTile * shape.values;
}

void softmax_forward(const SoftmaxShape& shape, const SoftmaxInputs& in, int64_t begin, Matrix out,
                     const SoftmaxStats& stats, float* scratch) {
  const int64_t rows = std::min(kQueryTile, shape.queries - begin);
  const TokenSpan keys = extent_or_all(in.key_mask, shape.keys);
  if (keys.length == 0 ||
      (in.query_mask != nullptr &&
       std::count(in.query_mask + begin, in.query_mask + begin + rows, true) == 0)) {
    return zero_rows(out, begin, begin + rows, shape.values);
  }
  OpenArena arena(scratch);
  const ConstMatrix k = without_padding(in.k, in.key_mask, keys, shape.depth,
                                        arena.take(keys.holes ? shape.keys * shape.depth : 0)),
                    v = without_padding(in.v, in.key_mask, keys, shape.values,
                                        arena.take(keys.holes ? shape.keys * shape.values : 0)),
                    q = asking(in.q, in.query_mask, begin, rows, shape.depth,
                               arena.take(kQueryTile * shape.depth));
  SmallAttentionShape tile = tile_shape(shape, keys.length, rows);
  tile.dropout = dropout_from(shape, in.dropout, begin);
  attend_small_q(tile, q, k, v, keys.holes ? in.key_mask : nullptr, out.from(begin),
                 stats.from(begin), arena.take(0));
  clear_silent(out, in.query_mask, begin, rows, shape.values);
}

void softmax_backward(const SoftmaxShape& shape, const SoftmaxInputs& in, ConstMatrix out,
                      const SoftmaxStats& stats, ConstMatrix grad_out, const SoftmaxGradients& grad,
                      float* scratch) {
  const TokenSpan keys = extent_or_all(in.key_mask, shape.keys);
  zero_rows(grad.q, 0, shape.queries, shape.depth);
  zero_rows(grad.k, 0, shape.keys, shape.depth);
  zero_rows(grad.v, 0, shape.keys, shape.values);
  if (keys.length == 0) return;
  OpenArena arena(scratch);
  const ConstMatrix k = without_padding(in.k, in.key_mask, keys, shape.depth,
                                        arena.take(keys.holes ? shape.keys * shape.depth : 0)),
                    v = without_padding(in.v, in.key_mask, keys, shape.values,
                                        arena.take(keys.holes ? shape.keys * shape.values : 0));
  float *q_copy = arena.take(kQueryTile * shape.depth),
        *grad_copy = arena.take(kQueryTile * shape.values), *rest = arena.take(0);
  for (int64_t begin = 0; begin < shape.queries; begin += kQueryTile) {
    const int64_t rows = std::min(kQueryTile, shape.queries - begin);
    if (in.query_mask != nullptr &&
        std::count(in.query_mask + begin, in.query_mask + begin + rows, true) == 0)
      continue;
    SmallAttentionShape tile = tile_shape(shape, keys.length, rows);
    tile.dropout = dropout_from(shape, in.dropout, begin);
    few_queries_backward(tile, asking(in.q, in.query_mask, begin, rows, shape.depth, q_copy), k, v,
                         keys.holes ? in.key_mask : nullptr, out.from(begin), stats.from(begin),
                         asking(grad_out, in.query_mask, begin, rows, shape.values, grad_copy),
                         grad.q.from(begin), grad.k, grad.v, Gradient::add, rest);
  }
}

}  // namespace lra::ops::cpu::LRA_ISA
