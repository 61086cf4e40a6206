#include "attention_variants/ops/cpu/kernels/heads/softmax_tiles.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/transpose.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Of scores whose powers of two are wanted.
float score_scale(const SmallAttentionShape& shape) {
  return shape.scale * std::numbers::log2e_v<float>;
}

// Of an operand that is read by all tiles, `count` numbers: multiplied here by what products are
// then not multiplied by, where they are rounded. What is left to multiply by.
float scale_of_products(float scale, float* operand, int64_t count) {
  if (detail::products == GemmPrecision::float32) return scale;
  for (int64_t i = 0; i < count; ++i) operand[i] *= scale;
  return 1;
}

// The keys that all tiles read, and what their products are multiplied by.
struct ScoreKeys {
  ScoreKeys(const SmallAttentionShape& shape, ConstMatrix k, float* copy)
      : rows(k), scale(score_scale(shape)) {
    if (detail::products == GemmPrecision::float32) return;
    copy_rows(k, shape.few, shape.depth, {copy, shape.depth});
    rows = {copy, shape.depth};
    scale = scale_of_products(scale, copy, shape.few * shape.depth);
  }
  ConstMatrix rows;
  float scale;
};

constexpr int64_t kStride = SmallAttentionScratch::kStride;

// To scores [rows,m] of positions from `begin` on, whose powers of two are wanted.
void add_bias_of_leads(Matrix s, const LeadBias& bias, int64_t begin, int64_t rows, int64_t m) {
  if (bias.values == nullptr) return;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const from = bias.values + (bias.zero - begin - r);
    float* const row = s[r];
#pragma omp simd
    for (int64_t c = 0; c < m; ++c) row[c] += std::numbers::log2e_v<float> * from[c];
  }
}

// grad [rows,m] is of q kᵀ, scale times that of scores.
void add_gradient_of_leads(ConstMatrix grad, const LeadBias& bias, int64_t begin, int64_t rows,
                           int64_t m, float scale) {
  if (bias.gradient == nullptr) return;
  const float unscaled = 1 / scale;
  for (int64_t r = 0; r < rows; ++r) {
    float* const to = bias.gradient + (bias.zero - begin - r);
    const float* const row = grad[r];
#pragma omp simd
    for (int64_t c = 0; c < m; ++c) to[c] += unscaled * row[c];
  }
}

}  // namespace

void softmax_rows(float* s, int64_t rows, int64_t m, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * m;
    for (int64_t j = 0; j < m; ++j) row[j] += bias[j];
    const float top = largest(row, m);
    const float share = 1 / exponentials(row, m, 1, top);
    for (int64_t j = 0; j < m; ++j) row[j] *= share;
  }
}

void softmax_rows_backward(const float* p, float* grad, int64_t rows, int64_t m, float scale) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = p + r * m;
    float* row = grad + r * m;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t j = 0; j < m; ++j) dot += from[j] * row[j];
    for (int64_t j = 0; j < m; ++j) row[j] = from[j] * (row[j] - dot) * scale;
  }
}

void attend_small_kv(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix x,
                     const float* bias, Matrix out, float* top, float* inverse, Arena& arena) {
  const int64_t m = shape.few;
  const Arena::Frame frame(arena);
  const SmallAttentionScratch scratch(shape, Pass::forward, arena);
  const Matrix p{scratch.scores, kStride};  // [m,rows]
  const ScoreKeys keys(shape, k, scratch.turned);
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    const Matrix to = out.from(begin);
    gemm_nt(m, rows, shape.depth, keys.rows, q.from(begin), p, {.product = keys.scale});
    exp_columns(p, m, rows, bias, top + begin, inverse + begin);
    gemm_tn(rows, shape.values, m, p, x, to);
    scale_rows(to, rows, shape.values, inverse + begin);
  }
}

void attend_small_kv_backward(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k,
                              ConstMatrix x, const float* bias, const float* top,
                              const float* inverse, ConstMatrix grad_out, Matrix grad_q,
                              Matrix grad_k, Matrix grad_x, Arena& arena) {
  const int64_t m = shape.few;
  const Arena::Frame frame(arena);
  const SmallAttentionScratch scratch(shape, Pass::backward, arena);
  const Matrix p{scratch.scores, kStride}, grad{scratch.grad, kStride};  // [m,rows]
  const ScoreKeys keys(shape, k, scratch.turned);
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    const ConstMatrix tile = q.from(begin), grad_tile = grad_out.from(begin);
    gemm_nt(m, rows, shape.depth, keys.rows, tile, p, {.product = keys.scale});
    gemm_nt(m, rows, shape.values, x, grad_tile, grad);
    columns_backward(p, grad, m, rows, bias, top + begin, inverse + begin, shape.scale);
    gemm(m, shape.values, rows, p, grad_tile, grad_x, {.old = 1});
    gemm_tn(rows, shape.depth, m, grad, k, grad_q.from(begin));
    gemm(m, shape.depth, rows, grad, tile, grad_k, {.old = 1});
  }
}

void attend_small_q(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                    const bool* mask, Matrix out, const SoftmaxStats& stats, Arena& arena) {
  const int64_t m = shape.few;
  const Arena::Frame frame(arena);
  const SmallAttentionScratch scratch(shape, Pass::forward, arena);
  const Matrix s{scratch.scores, m}, turned{scratch.turned, m},  // [d,m], once for all tiles
      sums{scratch.sums, m};                                     // [e,m]
  transpose(q, m, shape.depth, turned);
  const float scale = scale_of_products(score_scale(shape), turned.data, shape.depth * m);
  float *const top = stats.max, *const sum = stats.inverse_sum,  // inverted in the end
                                    *const shrink = scratch.row;
  std::fill(top, top + m, std::numeric_limits<float>::lowest());
  std::fill(sum, sum + m, 0.0F);
  std::fill(sums.data, sums[shape.values], 0.0F);
  const auto scale_columns = [&](const float* factors) {
    for (int64_t e = 0; e < shape.values; ++e) multiply_elements(sums[e], factors, m, sums[e]);
  };
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    const TileDropout dropout(shape.dropout, begin, rows);
    gemm(rows, m, shape.depth, k.from(begin), turned, s, {.product = scale});
    add_bias_of_leads(s, shape.bias, begin, rows, m);
    online_softmax_columns(s, {rows, mask == nullptr ? nullptr : mask + begin, dropout.bits()}, m,
                           top, sum, shrink);
    scale_columns(shrink);
    gemm_tn(shape.values, m, rows, v.from(begin), s, sums, {.product = dropout.scale(), .old = 1});
  }
  for (int64_t j = 0; j < m; ++j) sum[j] = 1 / sum[j];
  scale_columns(sum);
  transpose(sums, shape.values, m, out);
}

void attend_small_q_backward(const SmallAttentionShape& shape, ConstMatrix q, ConstMatrix k,
                             ConstMatrix v, const bool* mask, ConstMatrix out,
                             const SoftmaxStats& stats, ConstMatrix grad_out, Matrix grad_q,
                             Matrix grad_k, Matrix grad_v, Gradient gradient, Arena& arena) {
  const float old = gradient == Gradient::add ? 1.0F : 0.0F;
  const int64_t m = shape.few;
  const Arena::Frame frame(arena);
  const SmallAttentionScratch scratch(shape, Pass::backward, arena);
  const Matrix p{scratch.scores, m}, grad{scratch.grad, m};
  const Matrix turned{scratch.turned, m}, turned_grad{scratch.turned_grad, m},  // [d,m], [e,m]
      sums{scratch.sums, m};                                                    // [d,m]
  transpose(q, m, shape.depth, turned);
  const float scale = scale_of_products(score_scale(shape), turned.data, shape.depth * m);
  transpose(grad_q, m, shape.depth, sums);
  transpose(grad_out, m, shape.values, turned_grad);
  float* const dot = scratch.row;
  row_products(out, grad_out, m, shape.values, dot);
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    const ConstMatrix tile = k.from(begin);
    const TileDropout dropout(shape.dropout, begin, rows);
    const TileRows of{rows, mask == nullptr ? nullptr : mask + begin, dropout.bits()};
    gemm(rows, m, shape.depth, tile, turned, p, {.product = scale});
    add_bias_of_leads(p, shape.bias, begin, rows, m);
    column_probabilities(p, of, m, stats, /*kept=*/grad);
    gemm(rows, shape.values, m, of.bits == nullptr ? p : grad, grad_out, grad_v.from(begin),
         {.product = dropout.scale(), .old = old});
    gemm(rows, m, shape.values, v.from(begin), turned_grad, grad, {.product = dropout.scale()});
    column_gradient(p, grad, of, m, dot, shape.scale);
    add_gradient_of_leads(grad, shape.bias, begin, rows, m, shape.scale);
    gemm(rows, shape.depth, m, grad, q, grad_k.from(begin), {.old = old});
    gemm_tn(shape.depth, m, rows, tile, grad, sums, {.old = 1});
  }
  transpose(sums, shape.depth, m, grad_q);
}

}  // namespace lra::ops::cpu::LRA_ISA
