#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cpu/kernels/heads/landmark_matrix.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_tiles.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/depthwise_conv.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

SmallAttentionShape tiles(const LandmarkHeadShape& shape, int64_t length) {
  return {.length = length,
          .few = shape.landmarks,
          .depth = shape.depth,
          .values = shape.depth,
          .scale = landmark_scale(shape)};
}

// What a head reads: rows of padding zero where they stand among tokens.
struct Tokens {
  TokenSpan span;
  const bool* mask;  // null where no padding stands among tokens
  ConstMatrix q, k, v;
  Tokens(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in, const TokenSpan& of,
         const LandmarkHeadScratch& scratch)
      : span(of),
        mask(of.holes ? in.mask : nullptr),
        q(without_padding(in.q, in.mask, of, shape.depth, scratch.q)),
        k(without_padding(in.k, in.mask, of, shape.depth, scratch.k)),
        v(without_padding(in.v, in.mask, of, shape.depth, scratch.v)) {}
};

// Adds the parts behind the first, `stride` apart, to it.
void add_parts(float* parts, int64_t count, int64_t stride, int64_t size) {
  for (int64_t part = 1; part < count; ++part) add(parts, parts + part * stride, size, parts);
}

void clear_rows(const LandmarkHeadShape& shape, Matrix x) {
  zero_rows(x, 0, shape.landmarks, shape.depth);
}

// B V of a range of the keys, and its softmaxes; of no token they are those of weights of zero.
void gather(const LandmarkHeadShape& shape, const Tokens& tokens, const LandmarkHeadSaved& saved,
            const PositionRange& range, Matrix bv, const SoftmaxStats& b, Arena& arena) {
  const bool* const mask = mask_from(tokens.mask, range.begin);
  if (!any_token(mask, range.length())) {
    clear_rows(shape, bv);
    std::fill(b.max, b.max + shape.landmarks, std::numeric_limits<float>::lowest());
    std::fill(b.inverse_sum, b.inverse_sum + shape.landmarks, 1.0F);
    return;
  }
  attend_small_q(tiles(shape, range.length()), saved.q, tokens.k.from(range.begin),
                 tokens.v.from(range.begin), mask, bv, b, arena);
}

// B V of all keys and its softmaxes from those of the ranges.
void join_gathered(const LandmarkHeadShape& shape, const LandmarkHeadScratch& scratch,
                   int64_t parts, const LandmarkHeadSaved& saved) {
  const int64_t m = shape.landmarks, d = shape.depth;
  clear_rows(shape, saved.bv);
  for (int64_t i = 0; i < m; ++i) {
    float top = std::numeric_limits<float>::lowest(), sum = 0;
    for (int64_t part = 0; part < parts; ++part) top = std::max(top, scratch.b.max[part * m + i]);
    for (int64_t part = 0; part < parts; ++part) {
      // Of no token 0: its largest score is the lowest number.
      const float weight =
          std::exp2(scratch.b.max[part * m + i] - top) / scratch.b.inverse_sum[part * m + i];
      const float* const from = scratch.bv[part][i];
      for (int64_t c = 0; c < d; ++c) saved.bv[i][c] += weight * from[c];
      sum += weight;
    }
    for (int64_t c = 0; c < d; ++c) saved.bv[i][c] /= sum;
    saved.b.max[i] = top;
    saved.b.inverse_sum[i] = 1 / sum;
  }
}

// Z, and beside it B V.
void gather_and_invert(const LandmarkHeadShape& shape, std::optional<float> norm,
                       const Tokens& tokens, const LandmarkHeadSaved& saved,
                       const LandmarkHeadScratch& scratch, const Team& team) {
  const int64_t m = shape.landmarks, parts = team.parts();
  team.for_each(1 + parts, [&](int64_t item, Arena& arena) {
    if (item == 0) {
      const GemmPrecisionScope exact(GemmPrecision::float32);  // an inverse needs all digits
      landmark_matrix(shape, saved.q, saved.k, saved.bias, scratch.a);
      inverse(m, shape.iterations, scratch.a, norm, scratch.z, arena);
      return;
    }
    const int64_t part = item - 1;
    const bool whole = parts == 1;
    gather(shape, tokens, saved, team.range(part, tokens.span.length, kTile),
           whole ? saved.bv : scratch.bv[part], whole ? saved.b : scratch.b.from(part * m), arena);
  });
  if (parts > 1) join_gathered(shape, scratch, parts, saved);
}

// F X and the convolution, which joins a tile of the result while that is in cache.
void read_out(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in, const Tokens& tokens,
              const LandmarkHeadSaved& saved, const LandmarkHeadScratch& scratch,
              const PositionRange& range, Matrix out, Arena& arena) {
  const Matrix v_tile = LandmarkHeadPartScratch(shape, arena).v_tile;
  for (int64_t begin = range.begin; begin < range.end; begin += kTile) {
    const int64_t rows = std::min(kTile, range.end - begin);
    attend_small_kv(tiles(shape, rows), tokens.q.from(begin), saved.k, scratch.x, saved.bias,
                    out.from(begin), saved.top + begin, saved.inverse + begin, arena);
    const ConstMatrix values = pad_tile(tokens.v, tokens.span.length, begin, rows, shape.depth,
                                        shape.kernel, KernelOrder::as_given, v_tile);
    add_convolution(in.conv_weight, shape.kernel, KernelOrder::as_given, values, rows, shape.depth,
                    out.from(begin));
  }
}

// From the gradient of F X, X = Z (B V): writes those of k's landmarks, of X, of q [N,d] and of Z,
// and x becomes the gradient of B V.
void readout_backward(const LandmarkHeadShape& shape, const Tokens& in,
                      const LandmarkHeadSaved& saved, const LandmarkHeadBackwardScratch& scratch,
                      ConstMatrix g, Matrix grad_q, const Team& team) {
  const int64_t m = shape.landmarks, d = shape.depth;
  team.for_each(team.parts(), [&](int64_t part, Arena& arena) {
    const PositionRange range = team.range(part, in.span.length, kTile);
    const int64_t begin = range.begin;
    clear_rows(shape, scratch.grad_x[part]);
    clear_rows(shape, scratch.grad_k[part]);
    attend_small_kv_backward(tiles(shape, range.length()), in.q.from(begin), saved.k, scratch.x,
                             saved.bias, saved.top + begin, saved.inverse + begin, g.from(begin),
                             grad_q.from(begin), scratch.grad_k[part], scratch.grad_x[part], arena);
  });
  add_parts(scratch.grad_k.data, team.parts(), scratch.grad_k.stride, m * d);
  add_parts(scratch.grad_x.data, team.parts(), scratch.grad_x.stride, m * d);
  const GemmPrecisionScope exact(GemmPrecision::float32);
  gemm_nt(m, m, d, scratch.grad_x[0], saved.bv, scratch.grad_z);
  gemm_tn(m, d, m, scratch.z, scratch.grad_x[0], scratch.x);
}

// From x, the gradient of B V, and that of the convolution g: writes those of k and v [N,d] in a
// range of the positions, and its part of those of q's landmarks and of the taps.
void values_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in,
                     const Tokens& tokens, const LandmarkHeadSaved& saved,
                     const LandmarkHeadBackwardScratch& scratch, ConstMatrix g,
                     const LandmarkHeadGradients& grad, const PositionRange& range, int64_t part,
                     Arena& arena) {
  const int64_t d = shape.depth, length = tokens.span.length;
  const LandmarkHeadBackwardPartScratch own(shape, arena);
  const Matrix grad_q = scratch.grad_q[part];
  float* const taps = scratch.taps.data + part * shape.kernel * ConvWeightSums::kParts;
  clear_rows(shape, grad_q);
  std::fill(taps, taps + shape.kernel * ConvWeightSums::kParts, 0.0F);
  for (int64_t begin = range.begin; begin < range.end; begin += kTile) {
    const int64_t rows = std::min(kTile, range.end - begin);
    attend_small_q_backward(tiles(shape, rows), saved.q, tokens.k.from(begin), tokens.v.from(begin),
                            mask_from(tokens.mask, begin), saved.bv, saved.b, scratch.x, grad_q,
                            grad.k.from(begin), grad.v.from(begin), Gradient::write, arena);
    const ConstMatrix values = pad_tile(tokens.v, length, begin, rows, d, shape.kernel,
                                        KernelOrder::as_given, own.v_tile),
                      given = pad_tile(g, length, begin, rows, d, shape.kernel,
                                       KernelOrder::reversed, own.g_tile);
    add_convolution(in.conv_weight, shape.kernel, KernelOrder::reversed, given, rows, d,
                    grad.v.from(begin));
    add_conv_weight_grad(given.from(pad_after(shape.kernel)), values, shape.kernel, rows, d, taps);
  }
}

// That of A, from that of Z, and beside it those of k and v.
void values_and_inverse_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in,
                                 const Tokens& tokens, const LandmarkHeadSaved& saved,
                                 const LandmarkHeadBackwardScratch& scratch, ConstMatrix g,
                                 const LandmarkHeadGradients& grad, const Team& team) {
  const int64_t m = shape.landmarks, parts = team.parts();
  team.for_each(parts + 1, [&](int64_t item, Arena& arena) {
    if (item > 0) {
      const int64_t part = item - 1;
      values_backward(shape, in, tokens, saved, scratch, g, grad,
                      team.range(part, tokens.span.length, kTile), part, arena);
      return;
    }
    const GemmPrecisionScope exact(GemmPrecision::float32);
    const float grad_norm = inverse_backward(shape.iterations, scratch.a, in.norm, scratch.grad_z,
                                             scratch.grad_a, scratch.iterates, arena);
    if (grad.norm != nullptr) *grad.norm = grad_norm;
    softmax_rows_backward(scratch.a.data, scratch.grad_a.data, m, m, landmark_scale(shape));
  });
  add_parts(scratch.grad_q.data, parts, scratch.grad_q.stride, m * shape.depth);
  const int64_t taps = shape.kernel * ConvWeightSums::kParts;
  add_parts(scratch.taps.data, parts, taps, taps);
  tap_gradients(scratch.taps.data, shape.kernel, grad.conv_weight);
}

// From that of A: adds to those of the landmarks.
void landmarks_backward(const LandmarkHeadShape& shape, const LandmarkHeadSaved& saved,
                        const LandmarkHeadBackwardScratch& scratch) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const GemmPrecisionScope exact(GemmPrecision::float32);
  gemm(m, d, m, scratch.grad_a, saved.k, scratch.grad_q[0], {.old = 1});
  gemm_tn(m, d, m, scratch.grad_a, saved.q, scratch.grad_k[0], {.old = 1});
}

}  // namespace

void landmark_attention_forward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in,
                                Matrix out, const LandmarkHeadSaved& saved, Arena& arena,
                                const Team& team) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const TokenSpan span = span_of(in.mask, shape.length);
  if (span.length == 0) return zero_rows(out, 0, shape.length, d);
  const Arena::Frame frame(arena);
  const LandmarkHeadScratch scratch(shape, padding_of(span), team.parts(), arena);
  const Tokens tokens(shape, in, span, scratch);

  const Segments segments(shape.length, m);
  segment_means(segments, shape.over, tokens.q, in.mask, d, saved.q, saved.bias);
  segment_means(segments, shape.over, tokens.k, in.mask, d, saved.k, saved.bias);
  gather_and_invert(shape, in.norm, tokens, saved, scratch, team);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    gemm(m, d, m, scratch.z, saved.bv, scratch.x);
  }
  team.for_each(team.parts(), [&](int64_t part, Arena& of_part) {
    read_out(shape, in, tokens, saved, scratch, team.range(part, span.length, kTile), out, of_part);
  });
  zero_padding(out, in.mask, span, shape.length, d);
}

void landmark_attention_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in,
                                 const LandmarkHeadSaved& saved, ConstMatrix grad_out,
                                 const LandmarkHeadGradients& grad, Arena& arena,
                                 const Team& team) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const TokenSpan span = span_of(in.mask, shape.length);
  if (shape.kernel > 0) std::fill(grad.conv_weight, grad.conv_weight + shape.kernel, 0.0F);
  if (grad.norm != nullptr) *grad.norm = 0;
  if (span.length == 0) {
    for (const Matrix& g : {grad.q, grad.k, grad.v}) zero_rows(g, 0, shape.length, d);
    return;
  }
  const Arena::Frame frame(arena);
  const LandmarkHeadBackwardScratch scratch(shape, padding_of(span), team.parts(), arena);
  const Tokens tokens(shape, in, span, scratch);
  const ConstMatrix g = without_padding(grad_out, in.mask, span, d, scratch.g);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    landmark_matrix(shape, saved.q, saved.k, saved.bias, scratch.a);
    inverse_iterates(shape.iterations, scratch.a, in.norm, scratch.z, scratch.iterates);
    gemm(m, d, m, scratch.z, saved.bv, scratch.x);
  }
  readout_backward(shape, tokens, saved, scratch, g, grad.q, team);
  values_and_inverse_backward(shape, in, tokens, saved, scratch, g, grad, team);
  landmarks_backward(shape, saved, scratch);
  const Segments segments(shape.length, m);
  segment_means_backward(segments, shape.over, in.mask, d, scratch.grad_q[0], grad.q);
  segment_means_backward(segments, shape.over, in.mask, d, scratch.grad_k[0], grad.k);
  for (const Matrix& of : {grad.q, grad.k, grad.v})
    zero_padding(of, in.mask, span, shape.length, d);
}

}  // namespace lra::ops::cpu::LRA_ISA
