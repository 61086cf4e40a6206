#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"

#include <algorithm>
#include <limits>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Of `rows` queries from `begin` on and a range of the keys.
SmallAttentionShape tile_shape(const SoftmaxShape& shape, const SoftmaxInputs& in,
                               const PositionRange& keys, int64_t begin, int64_t rows) {
  SmallAttentionShape tile{.length = keys.length(),
                           .few = rows,
                           .depth = shape.depth,
                           .values = shape.values,
                           .scale = shape.scale,
                           .dropout = in.dropout,
                           .bias = in.bias};
  tile.dropout.first_block += begin / kQueryTile * shape.keys + keys.begin;
  tile.bias.zero += begin - keys.begin;
  return tile;
}

TokenSpan extent_or_all(const bool* mask, int64_t length) {
  return mask == nullptr ? TokenSpan{.length = length, .holes = false} : span_of(mask, length);
}

// At the end of a range, and where one is left by an exception: nobody waits for it any more.
struct EndOfRange {
  int64_t* done;
  ~EndOfRange() { Team::advance(done, std::numeric_limits<int64_t>::max()); }
};

// Rows [begin, begin + rows) of x side by side, those that `mask` leaves out zero.
ConstMatrix asking(ConstMatrix x, const bool* mask, int64_t begin, int64_t rows, int64_t width,
                   float* copy) {
  x = x.from(begin);
  mask = mask_from(mask, begin);
  if (x.stride != width)
    return copy_tokens(x, mask, {.length = rows, .holes = mask != nullptr}, width, copy);
  return mask == nullptr ? x : without_padding(x, mask, rows, width, copy);
}

void clear_silent(Matrix x, const bool* mask, int64_t rows, int64_t width) {
  for (int64_t t = 0; mask != nullptr && t < rows; ++t) {
    if (!mask[t]) std::fill(x[t], x[t] + width, 0.0F);
  }
}

}  // namespace

void copy_keys(const SoftmaxShape& shape, SoftmaxInputs& in, const KeyScratch& copies) {
  const TokenSpan keys = extent_or_all(in.key_mask, shape.keys);
  in.k = copy_tokens(in.k, in.key_mask, keys, shape.depth, copies.k);
  in.v = copy_tokens(in.v, in.key_mask, keys, shape.values, copies.v);
}

void softmax_forward(const SoftmaxShape& shape, const SoftmaxInputs& in, int64_t begin, Matrix out,
                     const SoftmaxStats& stats, Arena& arena) {
  const int64_t rows = std::min(kQueryTile, shape.queries - begin);
  const TokenSpan keys = extent_or_all(in.key_mask, shape.keys);
  if (keys.length == 0 || !any_token(mask_from(in.query_mask, begin), rows)) {
    return zero_rows(out, 0, rows, shape.values);
  }
  const Arena::Frame frame(arena);
  const SoftmaxPartScratch own(shape, Pass::forward, arena);
  attend_small_q(tile_shape(shape, in, {0, keys.length}, begin, rows),
                 asking(in.q, in.query_mask, begin, rows, shape.depth, own.q), in.k, in.v,
                 keys.holes ? in.key_mask : nullptr, out, stats.from(begin), arena);
  clear_silent(out, mask_from(in.query_mask, begin), rows, shape.values);
}

void softmax_backward(const SoftmaxShape& shape, const SoftmaxInputs& given, ConstMatrix out,
                      const SoftmaxStats& stats, ConstMatrix grad_out, const SoftmaxGradients& grad,
                      KeyCopies copies, Arena& arena, const Team& team) {
  SoftmaxInputs in = given;
  const TokenSpan keys = extent_or_all(in.key_mask, shape.keys);
  const Arena::Frame frame(arena);
  const SoftmaxBackwardScratch scratch(shape, copies, team.parts(), arena);
  const bool copied = copies == KeyCopies::yes;
  if (copied) copy_keys(shape, in, scratch.keys);
  const Matrix grad_k = copied ? Matrix{scratch.grads.k, shape.depth} : grad.k,
               grad_v = copied ? Matrix{scratch.grads.v, shape.values} : grad.v;
  zero_rows(grad.q, 0, shape.queries, shape.depth);
  zero_rows(grad_k, 0, keys.length, shape.depth);
  zero_rows(grad_v, 0, keys.length, shape.values);
  zero_rows(grad.k, keys.length, shape.keys, shape.depth);
  zero_rows(grad.v, keys.length, shape.keys, shape.values);
  if (keys.length == 0) return;
  std::fill(scratch.done, scratch.done + team.parts(), 0);
  const int64_t granule = keys.length > (team.parts() - 1) * kTile ? kTile : kLeastKeys;
  // A tile of queries goes through the ranges of keys one after the other, so that whatever the
  // parts are, all gradients are added up in the same order.
  team.for_each(team.parts(), [&](int64_t part, Arena& of_part) {
    const PositionRange range = team.range(part, keys.length, granule);
    const SoftmaxPartScratch own(shape, Pass::backward, of_part);
    const EndOfRange end{scratch.done + part};
    const bool* const mask = keys.holes ? in.key_mask + range.begin : nullptr;
    for (int64_t begin = 0; begin < shape.queries; begin += kQueryTile) {
      const int64_t rows = std::min(kQueryTile, shape.queries - begin),
                    tile = begin / kQueryTile + 1;
      if (part > 0) Team::wait(scratch.done + part - 1, tile);
      if (range.length() > 0 && any_token(mask_from(in.query_mask, begin), rows)) {
        attend_small_q_backward(
            tile_shape(shape, in, range, begin, rows),
            asking(in.q, in.query_mask, begin, rows, shape.depth, own.q), in.k.from(range.begin),
            in.v.from(range.begin), mask, out.from(begin), stats.from(begin),
            asking(grad_out, in.query_mask, begin, rows, shape.values, own.grad),
            grad.q.from(begin), grad_k.from(range.begin), grad_v.from(range.begin), Gradient::add,
            of_part);
      }
      Team::advance(scratch.done + part, tile);
    }
  });
  if (!copied) return;
  copy_rows(grad_k, keys.length, shape.depth, grad.k);
  copy_rows(grad_v, keys.length, shape.values, grad.v);
}

}  // namespace lra::ops::cpu::LRA_ISA
