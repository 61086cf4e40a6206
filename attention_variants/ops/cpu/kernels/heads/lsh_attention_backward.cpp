// The backward pass of lsh_attention.h.
#include <algorithm>
#include <optional>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/lsh_ring.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// scores, products of x, become weights again, and grad [rows,keys], their gradient, that of the
// products.
void weights_backward(float* scores, float* grad, int64_t rows, int64_t keys, const float* scale,
                      const float* bias, const int32_t* at, const int32_t* asking, const float* top,
                      const float* inverse, const float* along) {
  for (int64_t r = 0; r < rows; ++r) {
    float *row = scores + r * keys, *to = grad + r * keys;
    const int32_t self = asking[r];
    const float most = top[r], share = inverse[r], shift = along[r];
    for (int64_t c = 0; c < keys; ++c) {
      const float score = row[c] * scale[c] + bias[c];
      const float weight = exp((at[c] == self ? kSelfScore : score) - most) * share;
      const float slope = weight * (to[c] - shift) * scale[c];
      row[c] = weight;
      to[c] = at[c] == self ? 0.0F : slope;
    }
  }
}

// What the backward pass is given, and where gradients go.
struct Backward {
  const LshShape& shape;
  ConstMatrix out;
  const float *top, *inverse;
  ConstMatrix grad_out;
  Matrix grad_x, grad_v;

  // Queries in `rows` of the ring, which gathers gradients of keys.
  void attend(const Ring& ring, const LshBackwardScratch& scratch, int64_t begin,
              int64_t rows) const {
    const int64_t d = shape.depth, e = shape.values, keys = shape.window();
    const int32_t* const asking = ring.at + begin;
    float *const scores = scratch.scores, *const grad_scores = scratch.grad_scores;
    const Matrix given = scratch.values, grad_query = scratch.grad_query;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = asking[r];
      std::copy(grad_out[i], grad_out[i] + e, given[r]);
      scratch.top[r] = top[i];
      scratch.sum[r] = inverse[i];
      scratch.along[r] = product(out[i], grad_out[i], e);
    }
    const ConstMatrix x = ring.x.from(begin);
    gemm_nt(rows, keys, d, x, ring.x, {scores, keys});
    gemm_nt(rows, keys, e, given, ring.v, {grad_scores, keys});
    weights_backward(scores, grad_scores, rows, keys, ring.scale, ring.bias, ring.at, asking,
                     scratch.top, scratch.sum, scratch.along);
    gemm(rows, d, keys, {grad_scores, keys}, ring.x, grad_query);
    for (int64_t r = 0; r < rows; ++r) add(grad_x[asking[r]], grad_query[r], d, grad_x[asking[r]]);
    gemm_tn(keys, d, rows, {grad_scores, keys}, x, scratch.grad_x, {.old = 1});
    gemm_tn(keys, e, rows, {scores, keys}, given, scratch.grad_v, {.old = 1});
  }

  // The chunk at `row` of the ring has all that its range gives it: to its tokens, or, where they
  // are another range's, to edges from `edge` on.
  void leave(const Ring& ring, const LshBackwardScratch& scratch, int64_t row,
             const LshEdges& edges, std::optional<int64_t> edge) const {
    const int64_t d = shape.depth, e = shape.values, tokens = ring.tokens_at(row);
    for (int64_t t = 0; t < tokens; ++t, ++row) {
      const int32_t i = ring.at[row];
      float *x = grad_x[i], *v = grad_v[i];
      if (edge) {
        edges.at[*edge + t] = i;
        x = edges.x[*edge + t];
        v = edges.v[*edge + t];
      }
      add(v, scratch.grad_v[row], e, v);
      const float slope = ring.slope[row] * product(scratch.grad_x[row], ring.x[row], d);
      add(x, scratch.grad_x[row], d, x);
      blend(ring.x[row], d, -slope, 1, x);
    }
  }

  void take(const LshEdges& edges) const {
    for (int64_t row = 0; row < edges.all; ++row) {
      const int32_t i = edges.at[row];
      if (i < 0) continue;
      add(grad_x[i], edges.x[row], shape.depth, grad_x[i]);
      add(grad_v[i], edges.v[row], shape.values, grad_v[i]);
    }
    clear(edges);
  }

  void clear(const LshEdges& edges) const {
    std::fill(edges.at, edges.at + edges.all, -1);
    zero_rows(edges.x, 0, edges.all, shape.depth);
    zero_rows(edges.v, 0, edges.all, shape.values);
  }
};

// The first row of edges, of a range's own, for a chunk that it does not have; none of its own.
std::optional<int64_t> edge_of(const LshShape& shape, const PositionRange& range, int64_t chunk) {
  if (chunk < range.begin) return (chunk - range.begin + shape.before) * shape.chunk;
  if (chunk >= range.end) return (chunk - range.end + shape.before) * shape.chunk;
  return std::nullopt;
}

}  // namespace

void lsh_backward(const LshShape& shape, const LshInputs& in, const int32_t* order, ConstMatrix out,
                  const float* top, const float* inverse, ConstMatrix grad_out, Matrix grad_x,
                  Matrix grad_v, Arena& arena, const Team& team) {
  const Arena::Frame frame(arena);
  const LshEdges edges(shape, team.parts(), arena);
  const Backward pass{shape, out, top, inverse, grad_out, grad_x, grad_v};
  zero_rows(grad_x, 0, shape.length, shape.depth);
  zero_rows(grad_v, 0, shape.length, shape.values);
  pass.clear(edges);
  const auto attend = [&](int64_t part, PositionRange range, Arena& own) {
    const LshBackwardScratch scratch(shape, own);
    Ring ring(shape, in, order, scratch.ring);
    const auto chunk = [&](int64_t first, int64_t queries) {
      for (int64_t begin = first; begin < first + queries; begin += scratch.rows)
        pass.attend(ring, scratch, begin, std::min(scratch.rows, first + queries - begin));
    };
    const auto enters = [&](int64_t row) {
      zero_rows(scratch.grad_x, row, row + shape.chunk, shape.depth);
      zero_rows(scratch.grad_v, row, row + shape.chunk, shape.values);
    };
    const auto leaves = [&](int64_t of, int64_t row) {
      std::optional<int64_t> edge;
      if (team.parts() > 1) edge = edge_of(shape, range, of);
      if (edge) *edge += part * edges.rows;
      pass.leave(ring, scratch, row, edges, edge);
    };
    ring.turn(range, chunk, enters, leaves);
  };
  for_each_range(shape, team, attend, [&] { pass.take(edges); });
}

}  // namespace lra::ops::cpu::LRA_ISA
