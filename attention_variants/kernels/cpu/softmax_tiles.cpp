#include "attention_variants/kernels/cpu/softmax_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention_variants/kernels/cpu/row_math.h"
#include "attention_variants/kernels/cpu/vector_math.h"

namespace lra::cpu {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// One tile of the running softmax over the rows of s [rows,m], a column for each query: s becomes
// exp(s - top), 0 where a row is masked; top and sum take the tile in; shrink [m] is what earlier
// results have to be multiplied by.
LRA_FOR_EACH_CPU void running_columns(float* s, int64_t rows, int64_t m, const bool* mask,
                                      float* top, float* sum, float* shrink) {
  for (int64_t j = 0; j < m; ++j) shrink[j] = top[j];
  for (int64_t r = 0; r < rows; ++r) {
    if (mask != nullptr && !mask[r]) continue;
    const float* row = s + r * m;
    for (int64_t j = 0; j < m; ++j) top[j] = std::max(top[j], row[j]);
  }
  for (int64_t j = 0; j < m; ++j) {
    shrink[j] = exp(shrink[j] - top[j]);
    sum[j] *= shrink[j];
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * m;
    if (mask != nullptr && !mask[r]) {
      std::fill(row, row + m, 0.0F);
      continue;
    }
    for (int64_t j = 0; j < m; ++j) {
      row[j] = exp(row[j] - top[j]);
      sum[j] += row[j];
    }
  }
}

// s [rows,m] scores become probabilities, given log_sum of each column; 0 where a row is masked.
LRA_FOR_EACH_CPU void column_probabilities(float* s, int64_t rows, int64_t m, const bool* mask,
                                           const float* log_sum) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * m;
    if (mask != nullptr && !mask[r]) {
      std::fill(row, row + m, 0.0F);
      continue;
    }
    for (int64_t j = 0; j < m; ++j) row[j] = exp(row[j] - log_sum[j]);
  }
}

// grad [rows,m] = p * (grad - dot) * scale, dot [m] by column.
LRA_FOR_EACH_CPU void column_gradient(const float* p, float* grad, int64_t rows, int64_t m,
                                      const float* dot, float scale) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = p + r * m;
    float* row = grad + r * m;
    for (int64_t j = 0; j < m; ++j) row[j] = from[j] * (row[j] - dot[j]) * scale;
  }
}

// s [m,columns] scores become exp(s - top), 0 in rows where bias [m] is not 0; of each column, top
// [columns] gets the largest score, and inverse [columns] one over the sum of what s becomes. Over
// columns and not along rows: what runs along a row would have to be summed across a vector.
LRA_FOR_EACH_CPU void exponential_columns(float* s, int64_t m, int64_t columns, const float* bias,
                                          float* top, float* inverse) {
  for (int64_t t = 0; t < columns; ++t) {
    top[t] = kLowest;
    inverse[t] = 0;
  }
  for (int64_t j = 0; j < m; ++j) {
    if (bias[j] != 0) continue;
    const float* row = s + j * columns;
    for (int64_t t = 0; t < columns; ++t) top[t] = std::max(top[t], row[t]);
  }
  for (int64_t j = 0; j < m; ++j) {
    float* row = s + j * columns;
    if (bias[j] != 0) {
      std::fill(row, row + columns, 0.0F);
      continue;
    }
    for (int64_t t = 0; t < columns; ++t) {
      row[t] = exp(row[t] - top[t]);
      inverse[t] += row[t];
    }
  }
  for (int64_t t = 0; t < columns; ++t) inverse[t] = 1 / inverse[t];
}

// s [m,columns], the scores that exponential_columns() was given, become softmaxes, and grad, their
// gradient, scale times that of the scores. dot [columns] is scratch.
LRA_FOR_EACH_CPU void columns_backward(float* s, float* grad, int64_t m, int64_t columns,
                                       const float* bias, const float* top, const float* inverse,
                                       float scale, float* dot) {
  for (int64_t t = 0; t < columns; ++t) dot[t] = 0;
  for (int64_t j = 0; j < m; ++j) {
    float* row = s + j * columns;
    const float* given = grad + j * columns;
    if (bias[j] != 0) {
      std::fill(row, row + columns, 0.0F);
      continue;
    }
    for (int64_t t = 0; t < columns; ++t) {
      row[t] = exp(row[t] - top[t]) * inverse[t];
      dot[t] += row[t] * given[t];
    }
  }
  for (int64_t j = 0; j < m; ++j) {
    const float* row = s + j * columns;
    float* to = grad + j * columns;
    for (int64_t t = 0; t < columns; ++t) to[t] = row[t] * (to[t] - dot[t]) * scale;
  }
}

// What a dropout keeps of the weights of some positions.
class Dropper {
 public:
  Dropper(const WeightDropout& dropout, int64_t begin, int64_t rows)
      : rows_(rows), scale_(static_cast<float>(dropout_scale(dropout.threshold))) {
    draw_bits(dropout.seed, dropout.first_block + begin, rows, dropout.threshold, bits_.data());
  }

  // to [rows,m]: the weights [rows,m] that are kept, scaled, and zeros; `to` may be `from`.
  void drop(const float* from, int64_t m, float* to) const {
    for (int64_t r = 0; r < rows_; ++r) {
      keep_bits(from + r * m, to + r * m, bits_.data() + static_cast<size_t>(r * kDropoutHalves), m,
                scale_);
    }
  }

 private:
  int64_t rows_;
  float scale_;
  std::array<uint16_t, kTile * kDropoutHalves> bits_;
};

}  // namespace

LRA_FOR_EACH_CPU void softmax_rows(float* s, int64_t rows, int64_t m, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * m;
    for (int64_t j = 0; j < m; ++j) row[j] += bias[j];
    const float top = largest(row, m);
    const float share = 1 / exponentials(row, m, 1, top);
    for (int64_t j = 0; j < m; ++j) row[j] *= share;
  }
}

LRA_FOR_EACH_CPU void softmax_rows_backward(const float* p, float* grad, int64_t rows, int64_t m,
                                            float scale) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = p + r * m;
    float* row = grad + r * m;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t j = 0; j < m; ++j) dot += from[j] * row[j];
    for (int64_t j = 0; j < m; ++j) row[j] = from[j] * (row[j] - dot) * scale;
  }
}

int64_t tile_scratch(const TileShape& shape) { return (2 * kTile + 4) * shape.few + kTile; }

void few_keys(const TileShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix x,
              const float* bias, Matrix out, float* top, float* inverse, float* scratch) {
  const int64_t m = shape.few;
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    const Matrix p{scratch, rows}, to = out.from(begin);  // [m,rows]
    multiply_bt(m, rows, shape.depth, k, q.from(begin), p, {.product = shape.scale});
    exponential_columns(p.data, m, rows, bias, top + begin, inverse + begin);
    multiply_at(rows, shape.values, m, p, x, to);
    scale_rows(to, rows, shape.values, inverse + begin);
  }
}

void few_keys_backward(const TileShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix x,
                       const float* bias, const float* top, const float* inverse,
                       ConstMatrix grad_out, Matrix grad_q, Matrix grad_k, Matrix grad_x,
                       float* scratch) {
  const int64_t m = shape.few;
  float* dot = scratch + 2 * kTile * m;
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    const Matrix p{scratch, rows}, grad{scratch + kTile * m, rows};  // [m,rows]
    const ConstMatrix tile = q.from(begin), grad_tile = grad_out.from(begin);
    multiply_bt(m, rows, shape.depth, k, tile, p, {.product = shape.scale});
    multiply_bt(m, rows, shape.values, x, grad_tile, grad);
    columns_backward(p.data, grad.data, m, rows, bias, top + begin, inverse + begin, shape.scale,
                     dot);
    multiply(m, shape.values, rows, p, grad_tile, grad_x, {.old = 1});
    multiply_at(rows, shape.depth, m, grad, k, grad_q.from(begin));
    multiply(m, shape.depth, rows, grad, tile, grad_k, {.old = 1});
  }
}

void few_queries(const TileShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                 const bool* mask, Matrix out, float* log_sum, float* scratch) {
  const int64_t m = shape.few;
  const Matrix s{scratch, m};
  float* top = scratch + 2 * kTile * m;
  float *sum = top + m, *shrink = sum + m;
  std::fill(top, top + m, kLowest);
  std::fill(sum, sum + m, 0.0F);
  for (int64_t j = 0; j < m; ++j) std::fill(out[j], out[j] + shape.values, 0.0F);
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    multiply_bt(rows, m, shape.depth, k.from(begin), q, s, {.product = shape.scale});
    running_columns(s.data, rows, m, mask == nullptr ? nullptr : mask + begin, top, sum, shrink);
    scale_rows(out, m, shape.values, shrink);
    if (shape.dropout.threshold != 0) Dropper(shape.dropout, begin, rows).drop(s.data, m, s.data);
    multiply_at(m, shape.values, rows, s, v.from(begin), out, {.old = 1});
  }
  for (int64_t j = 0; j < m; ++j) {
    log_sum[j] = top[j] + std::log(sum[j]);
    sum[j] = 1 / sum[j];
  }
  scale_rows(out, m, shape.values, sum);
}

void few_queries_backward(const TileShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                          const bool* mask, ConstMatrix out, const float* log_sum,
                          ConstMatrix grad_out, Matrix grad_q, Matrix grad_k, Matrix grad_v,
                          Gradient gradient, float* scratch) {
  const float old = gradient == Gradient::add ? 1.0F : 0.0F;
  const int64_t m = shape.few;
  const Matrix p{scratch, m}, grad{scratch + kTile * m, m};
  float* dot = scratch + 2 * kTile * m;
  row_products(out, grad_out, m, shape.values, dot);
  for (int64_t begin = 0; begin < shape.length; begin += kTile) {
    const int64_t rows = std::min(kTile, shape.length - begin);
    const ConstMatrix tile = k.from(begin);
    multiply_bt(rows, m, shape.depth, tile, q, p, {.product = shape.scale});
    column_probabilities(p.data, rows, m, mask == nullptr ? nullptr : mask + begin, log_sum);
    if (shape.dropout.threshold != 0) {
      const Dropper dropper(shape.dropout, begin, rows);
      dropper.drop(p.data, m, grad.data);
      multiply(rows, shape.values, m, grad, grad_out, grad_v.from(begin), {.old = old});
      multiply_bt(rows, m, shape.values, v.from(begin), grad_out, grad);
      dropper.drop(grad.data, m, grad.data);
    } else {
      multiply(rows, shape.values, m, p, grad_out, grad_v.from(begin), {.old = old});
      multiply_bt(rows, m, shape.values, v.from(begin), grad_out, grad);
    }
    column_gradient(p.data, grad.data, rows, m, dot, shape.scale);
    multiply(rows, shape.depth, m, grad, q, grad_k.from(begin), {.old = old});
    multiply_at(m, shape.depth, rows, grad, tile, grad_q, {.old = 1});
  }
}

}  // namespace lra::cpu
