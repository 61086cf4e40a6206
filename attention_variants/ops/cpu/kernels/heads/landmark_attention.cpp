#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_tiles.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/depthwise_conv.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Segment i of the positions: [begin, end).
struct Segments {
  int64_t shorter, size;
  Segments(int64_t length, int64_t count) : shorter(count - length % count), size(length / count) {}
  int64_t begin(int64_t i) const { return i * size + std::max<int64_t>(i - shorter, 0); }
};

int64_t tokens_between(const bool* mask, int64_t begin, int64_t end) {
  return std::count(mask + begin, mask + end, true);
}

// sum [width] += factor times the rows [begin, end) of x where `mask` is true.
void add_rows(ConstMatrix x, const bool* mask, int64_t begin, int64_t end, int64_t width,
              float factor, float* sum) {
  for (int64_t t = begin; t < end; ++t) {
    if (!mask[t]) continue;
    prefetch_rows(x, t + 16, 1, width);
    const float* row = x.data + t * x.stride;
    for (int64_t c = 0; c < width; ++c) sum[c] += factor * row[c];
  }
}

// Those rows of x += factor * of.
void add_to_rows(const float* of, const bool* mask, int64_t begin, int64_t end, int64_t width,
                 float factor, Matrix x) {
  for (int64_t t = begin; t < end; ++t) {
    if (!mask[t]) continue;
    float* row = x.data + t * x.stride;
    for (int64_t c = 0; c < width; ++c) row[c] += factor * of[c];
  }
}

// means [m,d] of the tokens of each segment of x; bias [m] is 0, or -inf where there is none.
void segment_means(const NystromShape& shape, ConstMatrix x, const bool* mask, Matrix means,
                   float* bias) {
  const Segments segments(shape.length, shape.landmarks);
  for (int64_t i = 0; i < shape.landmarks; ++i) {
    const int64_t begin = segments.begin(i), end = segments.begin(i + 1),
                  tokens = tokens_between(mask, begin, end);
    std::fill(means[i], means[i] + shape.depth, 0.0F);
    bias[i] = tokens > 0 ? 0.0F : -std::numeric_limits<float>::infinity();
    if (tokens > 0)
      add_rows(x, mask, begin, end, shape.depth, 1.0F / static_cast<float>(tokens), means[i]);
  }
}

// grad_x [N,d] += what reaches its rows from the means' gradient.
void segment_means_backward(const NystromShape& shape, const bool* mask, ConstMatrix grad_means,
                            Matrix grad_x) {
  const Segments segments(shape.length, shape.landmarks);
  for (int64_t i = 0; i < shape.landmarks; ++i) {
    const int64_t begin = segments.begin(i), end = segments.begin(i + 1),
                  tokens = tokens_between(mask, begin, end);
    if (tokens > 0)
      add_to_rows(grad_means[i], mask, begin, end, shape.depth, 1.0F / static_cast<float>(tokens),
                  grad_x);
  }
}

// A [m,m] = softmax of the landmarks' scores; rows and columns of absent landmarks are zero.
void landmark_matrix(const NystromShape& shape, ConstMatrix q, ConstMatrix k, const float* bias,
                     Matrix a) {
  const int64_t m = shape.landmarks;
  const float scale = 1 / std::sqrt(static_cast<float>(shape.depth));
  gemm_nt(m, m, shape.depth, q, k, a, {.product = scale});
  softmax_rows(a.data, m, m, bias);
  for (int64_t i = 0; i < m; ++i) {
    if (bias[i] != 0) std::fill(a[i], a[i] + m, 0.0F);
  }
}

SmallAttentionShape tiles(const NystromShape& shape, int64_t length) {
  return {.length = length,
          .few = shape.landmarks,
          .depth = shape.depth,
          .values = shape.depth,
          .scale = 1 / std::sqrt(static_cast<float>(shape.depth))};
}

// What a head reads: rows of padding zero where they stand among tokens.
struct Tokens {
  TokenSpan extent;
  const bool* mask;  // null where no padding stands among tokens
  ConstMatrix q, k, v;
  Tokens(const NystromShape& shape, const NystromInputs& in, const TokenSpan& of,
         const NystromScratch& scratch)
      : extent(of),
        mask(of.holes ? in.mask : nullptr),
        q(without_padding(in.q, in.mask, of, shape.depth, scratch.q)),
        k(without_padding(in.k, in.mask, of, shape.depth, scratch.k)),
        v(without_padding(in.v, in.mask, of, shape.depth, scratch.v)) {}
};

// From the gradient of F X, X = Z (B V): adds to those of k's landmarks and of X, writes that of q
// [N,d] and of Z, and x becomes the gradient of B V.
void readout_backward(const NystromShape& shape, const Tokens& in, const NystromSaved& saved,
                      const NystromBackwardScratch& scratch, ConstMatrix g, Matrix grad_q,
                      Arena& arena) {
  const int64_t m = shape.landmarks, d = shape.depth;
  few_keys_backward(tiles(shape, in.extent.length), in.q, saved.k, scratch.x, saved.bias, saved.top,
                    saved.inverse, g, grad_q, scratch.grad_k, scratch.grad_x, arena);
  const GemmPrecisionScope exact(GemmPrecision::float32);
  gemm_nt(m, m, d, scratch.grad_x, saved.bv, scratch.grad_z);
  gemm_tn(m, d, m, scratch.z, scratch.grad_x, scratch.x);
}

// From x, the gradient of B V, and that of the convolution g: writes those of k and v [N,d] and of
// the taps, adds to that of q's landmarks.
void values_backward(const NystromShape& shape, const NystromInputs& in, const Tokens& tokens,
                     const NystromSaved& saved, const NystromBackwardScratch& scratch,
                     ConstMatrix g, const NystromGradients& grad, Arena& arena) {
  const int64_t d = shape.depth, length = tokens.extent.length;
  const Arena::Frame frame(arena);
  const ConvWeightSums sums(shape.kernel, arena);
  std::fill(sums.data, sums.data + sums.count, 0.0F);
  for (int64_t begin = 0; begin < length; begin += kTile) {
    const int64_t rows = std::min(kTile, length - begin);
    few_queries_backward(tiles(shape, rows), saved.q, tokens.k.from(begin), tokens.v.from(begin),
                         tokens.mask == nullptr ? nullptr : tokens.mask + begin, saved.bv, saved.b,
                         scratch.x, scratch.grad_q, grad.k.from(begin), grad.v.from(begin),
                         Gradient::write, arena);
    pad_tile(tokens.v, length, begin, rows, d, shape.kernel, KernelOrder::no, scratch.v_tile);
    pad_tile(g, length, begin, rows, d, shape.kernel, KernelOrder::yes, scratch.g_tile);
    add_convolution(in.conv_weight, shape.kernel, KernelOrder::yes, scratch.g_tile, rows, d,
                    grad.v.from(begin));
    add_conv_weight_grad(scratch.g_tile.from(pad_after(shape.kernel)), scratch.v_tile, shape.kernel,
                         rows, d, sums.data);
  }
  tap_gradients(sums.data, shape.kernel, grad.conv_weight);
}

// From that of Z: adds to those of the landmarks.
void inverse_and_landmarks_backward(const NystromShape& shape, const NystromSaved& saved,
                                    const NystromBackwardScratch& scratch, Arena& arena) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const GemmPrecisionScope exact(GemmPrecision::float32);
  inverse_backward(shape.iterations, scratch.a, scratch.grad_z, scratch.grad_a, scratch.iterates,
                   arena);
  softmax_rows_backward(scratch.a.data, scratch.grad_a.data, m, m, tiles(shape, 0).scale);
  gemm(m, d, m, scratch.grad_a, saved.k, scratch.grad_q, {.old = 1});
  gemm_tn(m, d, m, scratch.grad_a, saved.q, scratch.grad_k, {.old = 1});
}

}  // namespace

void nystrom_forward(const NystromShape& shape, const NystromInputs& in, Matrix out,
                     const NystromSaved& saved, Arena& arena) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const TokenSpan extent = extent_of(in.mask, shape.length);
  if (extent.length == 0) return zero_rows(out, 0, shape.length, d);
  const Arena::Frame frame(arena);
  const NystromScratch scratch(shape, padding_of(extent), Pass::forward, arena);
  const Tokens tokens(shape, in, extent, scratch);

  segment_means(shape, tokens.q, in.mask, saved.q, saved.bias);
  segment_means(shape, tokens.k, in.mask, saved.k, saved.bias);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);  // an inverse needs all digits
    landmark_matrix(shape, saved.q, saved.k, saved.bias, scratch.a);
    inverse(m, shape.iterations, scratch.a, scratch.z, arena);
  }
  attend_small_q(tiles(shape, extent.length), saved.q, tokens.k, tokens.v, tokens.mask, saved.bv,
                 saved.b, arena);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    gemm(m, d, m, scratch.z, saved.bv, scratch.x);
  }
  // The convolution joins a tile of the result while that is in cache.
  for (int64_t begin = 0; begin < extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, extent.length - begin);
    attend_small_kv(tiles(shape, rows), tokens.q.from(begin), saved.k, scratch.x, saved.bias,
                    out.from(begin), saved.top + begin, saved.inverse + begin, arena);
    pad_tile(tokens.v, extent.length, begin, rows, d, shape.kernel, KernelOrder::no,
             scratch.v_tile);
    add_convolution(in.conv_weight, shape.kernel, KernelOrder::no, scratch.v_tile, rows, d,
                    out.from(begin));
  }
  zero_padding(out, in.mask, extent, shape.length, d);
}

void nystrom_backward(const NystromShape& shape, const NystromInputs& in, const NystromSaved& saved,
                      ConstMatrix grad_out, const NystromGradients& grad, Arena& arena) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const TokenSpan extent = extent_of(in.mask, shape.length);
  if (shape.kernel > 0) std::fill(grad.conv_weight, grad.conv_weight + shape.kernel, 0.0F);
  if (extent.length == 0) {
    for (const Matrix& g : {grad.q, grad.k, grad.v}) zero_rows(g, 0, shape.length, d);
    return;
  }
  const Arena::Frame frame(arena);
  const NystromBackwardScratch scratch(shape, padding_of(extent), arena);
  const Tokens tokens(shape, in, extent, scratch);
  const ConstMatrix g = without_padding(grad_out, in.mask, extent, d, scratch.g);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    landmark_matrix(shape, saved.q, saved.k, saved.bias, scratch.a);
    inverse_iterates(shape.iterations, scratch.a, scratch.z, scratch.iterates);
    gemm(m, d, m, scratch.z, saved.bv, scratch.x);
  }
  for (const Matrix& sum : {scratch.grad_x, scratch.grad_q, scratch.grad_k})
    zero_rows(sum, 0, m, d);
  readout_backward(shape, tokens, saved, scratch, g, grad.q, arena);
  values_backward(shape, in, tokens, saved, scratch, g, grad, arena);
  inverse_and_landmarks_backward(shape, saved, scratch, arena);
  segment_means_backward(shape, in.mask, scratch.grad_q, grad.q);
  segment_means_backward(shape, in.mask, scratch.grad_k, grad.k);
  for (const Matrix& of : {grad.q, grad.k, grad.v})
    zero_padding(of, in.mask, extent, shape.length, d);
}

}  // namespace lra::ops::cpu::LRA_ISA
