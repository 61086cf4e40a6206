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

// What a head saves: landmarks, B V and of which softmaxes it is made, and those of F.
struct Saved {
  Matrix q, k, bv;
  SoftmaxStats b;
  float *bias, *top, *inverse;
  Saved(const NystromShape& shape, float* at) {
    OpenArena arena(at);
    q = arena.matrix(shape.landmarks, shape.depth);
    k = arena.matrix(shape.landmarks, shape.depth);
    bv = arena.matrix(shape.landmarks, shape.depth);
    b.max = arena.take(shape.landmarks);
    b.inverse_sum = arena.take(shape.landmarks);
    bias = arena.take(shape.landmarks);
    top = arena.take(shape.length);
    inverse = arena.take(shape.length);
  }
};

// A tile laid out between what the convolution reads beside it.
int64_t laid_out_rows(const NystromShape& shape) {
  return kTile + pad_before(shape.kernel) + pad_after(shape.kernel);
}

}  // namespace

int64_t nystrom_saved(const NystromShape& shape) {
  return shape.landmarks * (3 * shape.depth + 3) + 2 * shape.length;
}

int64_t nystrom_scratch(const NystromShape& shape, InnerPadding holes) {
  const int64_t m = shape.landmarks;
  return (holes == InnerPadding::yes ? 3 * shape.length * shape.depth : 0) + nystrom_saved(shape) +
         laid_out_rows(shape) * shape.depth + 2 * m * m + m * shape.depth + inverse_scratch(m) +
         tile_scratch(tiles(shape, 0));
}

int64_t nystrom_backward_scratch(const NystromShape& shape, InnerPadding holes) {
  const int64_t m = shape.landmarks;
  return (holes == InnerPadding::yes ? 4 * shape.length * shape.depth : 0) +
         2 * laid_out_rows(shape) * shape.depth + 4 * m * m + 4 * m * shape.depth +
         inverse_backward_scratch(m, shape.iterations) + tap_sum_floats(shape.kernel) +
         tile_scratch(tiles(shape, 0));
}

void nystrom_forward(const NystromShape& shape, const NystromInputs& in, Matrix out, float* saved,
                     float* scratch) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const TokenSpan extent = extent_of(in.mask, shape.length);
  if (extent.length == 0) return zero_rows(out, 0, shape.length, d);
  OpenArena arena(scratch);
  const Saved keep(shape, saved != nullptr ? saved : arena.take(nystrom_saved(shape)));
  const auto tokens_of = [&](ConstMatrix of) {
    return without_padding(of, in.mask, extent, d, arena.take(extent.holes ? shape.length * d : 0));
  };
  const ConstMatrix q = tokens_of(in.q);
  const ConstMatrix k = tokens_of(in.k);
  const ConstMatrix v = tokens_of(in.v);
  const Matrix laid_out = arena.matrix(laid_out_rows(shape), d);
  const Matrix a = arena.matrix(m, m), z = arena.matrix(m, m), x = arena.matrix(m, d);
  float* const rest = arena.take(0);

  segment_means(shape, q, in.mask, keep.q, keep.bias);
  segment_means(shape, k, in.mask, keep.k, keep.bias);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);  // an inverse needs all digits
    landmark_matrix(shape, keep.q, keep.k, keep.bias, a);
    inverse(m, shape.iterations, a, z, rest);
  }
  attend_small_q(tiles(shape, extent.length), keep.q, k, v, extent.holes ? in.mask : nullptr,
                 keep.bv, keep.b, rest);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    gemm(m, d, m, z, keep.bv, x);
  }
  // The convolution joins a tile of the result while that is in cache.
  for (int64_t begin = 0; begin < extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, extent.length - begin);
    attend_small_kv(tiles(shape, rows), q.from(begin), keep.k, x, keep.bias, out.from(begin),
                    keep.top + begin, keep.inverse + begin, rest);
    pad_tile(v, extent.length, begin, rows, d, shape.kernel, KernelOrder::no, laid_out);
    add_convolution(in.conv_weight, shape.kernel, KernelOrder::no, laid_out, rows, d,
                    out.from(begin));
  }
  zero_padding(out, in.mask, extent, shape.length, d);
}

void nystrom_backward(const NystromShape& shape, const NystromInputs& in, const float* saved,
                      ConstMatrix grad_out, const NystromGradients& grad, float* scratch) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const TokenSpan extent = extent_of(in.mask, shape.length);
  if (shape.kernel > 0) std::fill(grad.conv_weight, grad.conv_weight + shape.kernel, 0.0F);
  if (extent.length == 0) {
    for (const Matrix& g : {grad.q, grad.k, grad.v}) zero_rows(g, 0, shape.length, d);
    return;
  }
  OpenArena arena(scratch);
  const Saved kept(shape, const_cast<float*>(saved));  // only read
  const auto tokens_of = [&](ConstMatrix of) {
    return without_padding(of, in.mask, extent, d, arena.take(extent.holes ? shape.length * d : 0));
  };
  const ConstMatrix q = tokens_of(in.q);
  const ConstMatrix k = tokens_of(in.k);
  const ConstMatrix v = tokens_of(in.v);
  const ConstMatrix g = tokens_of(grad_out);
  const Matrix v_laid_out = arena.matrix(laid_out_rows(shape), d),
               g_laid_out = arena.matrix(laid_out_rows(shape), d);
  const Matrix a = arena.matrix(m, m), z = arena.matrix(m, m), grad_z = arena.matrix(m, m),
               grad_a = arena.matrix(m, m);
  const Matrix x = arena.matrix(m, d), grad_x = arena.matrix(m, d), grad_q = arena.matrix(m, d),
               grad_k = arena.matrix(m, d);
  float* rest = arena.take(0);
  const SmallAttentionShape shape_of_tiles = tiles(shape, extent.length);

  float* iterates = arena.take(inverse_backward_scratch(m, shape.iterations));
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    landmark_matrix(shape, kept.q, kept.k, kept.bias, a);
    inverse_iterates(m, shape.iterations, a, z, iterates);
    gemm(m, d, m, z, kept.bv, x);
  }
  rest = arena.take(0);
  for (const Matrix& sum : {grad_x, grad_q, grad_k}) zero_rows(sum, 0, m, d);

  // F X, then X = Z (B V), then B V.
  few_keys_backward(shape_of_tiles, q, kept.k, x, kept.bias, kept.top, kept.inverse, g, grad.q,
                    grad_k, grad_x, rest);
  {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    gemm_nt(m, m, d, grad_x, kept.bv, grad_z);
    gemm_tn(m, d, m, z, grad_x, x);  // x is now the gradient of B V
  }
  float* const sums = arena.take(tap_sum_floats(shape.kernel));
  rest = arena.take(0);
  std::fill(sums, sums + tap_sum_floats(shape.kernel), 0.0F);
  for (int64_t begin = 0; begin < extent.length; begin += kTile) {
    const int64_t rows = std::min(kTile, extent.length - begin);
    few_queries_backward(tiles(shape, rows), kept.q, k.from(begin), v.from(begin),
                         extent.holes ? in.mask + begin : nullptr, kept.bv, kept.b, x, grad_q,
                         grad.k.from(begin), grad.v.from(begin), Gradient::write, rest);
    pad_tile(v, extent.length, begin, rows, d, shape.kernel, KernelOrder::no, v_laid_out);
    pad_tile(g, extent.length, begin, rows, d, shape.kernel, KernelOrder::yes, g_laid_out);
    add_convolution(in.conv_weight, shape.kernel, KernelOrder::yes, g_laid_out, rows, d,
                    grad.v.from(begin));
    add_conv_weight_grad(g_laid_out.from(pad_after(shape.kernel)), v_laid_out, shape.kernel, rows,
                         d, sums);
  }
  tap_gradients(sums, shape.kernel, grad.conv_weight);
  {  // Z, A and the landmarks
    const GemmPrecisionScope exact(GemmPrecision::float32);
    inverse_backward(m, shape.iterations, a, grad_z, grad_a, iterates);
    softmax_rows_backward(a.data, grad_a.data, m, m, shape_of_tiles.scale);
    gemm(m, d, m, grad_a, kept.k, grad_q, {.old = 1});
    gemm_tn(m, d, m, grad_a, kept.q, grad_k, {.old = 1});
  }
  segment_means_backward(shape, in.mask, grad_q, grad.q);
  segment_means_backward(shape, in.mask, grad_k, grad.k);
  for (const Matrix& of : {grad.q, grad.k, grad.v})
    zero_padding(of, in.mask, extent, shape.length, d);
}

}  // namespace lra::ops::cpu::LRA_ISA
