#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"

#include "attention_variants/ops/cpu/kernels/rows/simd.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Rows whose sums are made one after the other before anything waits for one of them.
constexpr int64_t kRows = 16;

// Columns whose sums over rows stay in registers: kVectors vectors from column `begin` on.
template <int64_t kWidth, int64_t kVectors>
struct ColumnBlock {
  using Vector = typename Simd<kWidth>::Vector;
  int64_t begin;

  LRA_INLINE Vector of(const float* row, int64_t v) const {
    return Simd<kWidth>::at(row + begin + v * kWidth);
  }

  // sums += term(r, v) of every row, added up by themselves first, so that the rounding of a long
  // sum grows with the tiles and not with the rows.
  template <class Term>
  LRA_INLINE void add_sums(int64_t rows, float* sums, const Term& term) const {
    Vector total[kVectors] = {};
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t v = 0; v < kVectors; ++v) total[v] += term(r, v);
    }
    for (int64_t v = 0; v < kVectors; ++v) Simd<kWidth>::at(sums + begin + v * kWidth) += total[v];
  }
};

// sums [count], count <= kRows: Σ_c term(r, c, lanes), a vector of as many columns as `lanes` has.
template <class Term>
LRA_INLINE void add_up_rows(int64_t count, int64_t width, float* sums, const Term& term) {
  using Wide = Simd<kSimdWidth>;
  const int64_t wide = width / kSimdWidth * kSimdWidth;
  for (int64_t begin = 0; begin < count; begin += kSimdWidth) {
    const int64_t end = std::min(begin + kSimdWidth, count);
    typename Wide::Vector total[kSimdWidth] = {};
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < wide; c += kSimdWidth) total[r - begin] += term(r, c, Wide{});
    }
    sum_lanes<kSimdWidth>(total);
    for (int64_t r = begin; r < end; ++r) {
      sums[r] = total[0][r - begin];
      for (int64_t c = wide; c < width; ++c) sums[r] += term(r, c, Simd<1>{})[0];
    }
  }
}

// Of rows two blocks behind those at x: they come from memory, in which no core looks beyond a
// page.
LRA_INLINE void prefetch_ahead(const float* x, int64_t width) {
  prefetch_elements(x + 2 * kRows * width, kRows * width);
}

template <class Body>
LRA_INLINE void for_column_blocks(int64_t width, const Body& body) {
  constexpr int64_t kVectors = 4;
  int64_t c = 0;
  for (; c + kSimdWidth * kVectors <= width; c += kSimdWidth * kVectors)
    body(ColumnBlock<kSimdWidth, kVectors>{c});
  for (; c + kSimdWidth <= width; c += kSimdWidth) body(ColumnBlock<kSimdWidth, 1>{c});
  for (; c + 4 <= width; c += 4) body(ColumnBlock<4, 1>{c});
  for (; c < width; ++c) body(ColumnBlock<1, 1>{c});
}

// Calls body(first row, elements) for rows [rows,width]: for all at once where there are no gaps.
template <class Body>
LRA_INLINE void for_long_rows(int64_t rows, int64_t width, bool gaps, const Body& body) {
  if (!gaps) return body(0, rows * width);
  for (int64_t r = 0; r < rows; ++r) body(r, width);
}

}  // namespace

void normalise_rows(const float* x, int64_t rows, int64_t width, const float* weight,
                    const float* bias, float eps, float* to, float* mean, float* inverse_sd) {
  const float share = 1.0F / static_cast<float>(width);
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t count = std::min(kRows, rows - begin);
    const float* const from = x + begin * width;
    float *const middle = mean + begin, *const inverse = inverse_sd + begin;
    prefetch_ahead(from, width);
    add_up_rows(count, width, middle, [&](int64_t r, int64_t c, auto lanes) {
      return decltype(lanes)::at(from + r * width + c);
    });
    for (int64_t r = 0; r < count; ++r) middle[r] *= share;
    add_up_rows(count, width, inverse, [&](int64_t r, int64_t c, auto lanes) {
      const auto apart = decltype(lanes)::at(from + r * width + c) - middle[r];
      return apart * apart;
    });
    for (int64_t r = 0; r < count; ++r) inverse[r] = 1.0F / std::sqrt(inverse[r] * share + eps);
    for (int64_t r = 0; r < count; ++r) {
      const float* const given = from + r * width;
      const float mean_of = middle[r], factor = inverse[r];
      float* const row = to + (begin + r) * width;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c)
        row[c] = (given[c] - mean_of) * factor * weight[c] + bias[c];
    }
  }
}

void normalise_rows_backward(const float* x, const float* grad, int64_t rows, int64_t width,
                             const float* weight, const float* mean, const float* inverse_sd,
                             const float* past, float* grad_x, float* grad_weight,
                             float* grad_bias) {
  const float share = 1.0F / static_cast<float>(width);
  float mean_grad[kRows], slope[kRows];
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t end = std::min(begin + kRows, rows), count = end - begin;
    const float *const from_rows = x + begin * width, *const given_rows = grad + begin * width;
    if (past != nullptr) prefetch_ahead(past + begin * width, width);
    prefetch_ahead(grad_x + begin * width, width);
    add_up_rows(count, width, mean_grad, [&](int64_t r, int64_t c, auto lanes) {
      using Lanes = decltype(lanes);
      return Lanes::at(given_rows + r * width + c) * Lanes::at(weight + c);
    });
    add_up_rows(count, width, slope, [&](int64_t r, int64_t c, auto lanes) {
      using Lanes = decltype(lanes);
      return Lanes::at(given_rows + r * width + c) * Lanes::at(weight + c) *
             (Lanes::at(from_rows + r * width + c) - mean[begin + r]);
    });
    for (int64_t r = 0; r < count; ++r) {
      mean_grad[r] *= share;
      slope[r] *= inverse_sd[begin + r] * inverse_sd[begin + r] * share;
    }
    // (scaled - mean of scaled - normal * mean of scaled normal) / sd
    for (int64_t r = begin; r < end; ++r) {
      const float *from = x + r * width, *given = grad + r * width;
      float* row = grad_x + r * width;
      const float middle = mean[r], inverse = inverse_sd[r], offset = mean_grad[r - begin],
                  factor = slope[r - begin];
      const auto through = [&](int64_t c) __attribute__((always_inline)) {
        return (given[c] * weight[c] - offset - (from[c] - middle) * factor) * inverse;
      };
      if (past == nullptr) {
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) row[c] = through(c);
        continue;
      }
      const float* const before = past + r * width;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) row[c] = before[c] + through(c);
    }
  }
  for_column_blocks(width, [&](const auto& columns) {
    columns.add_sums(rows, grad_weight, [&](int64_t r, int64_t v) {
      const float *from = x + r * width, *given = grad + r * width;
      return columns.of(given, v) * ((columns.of(from, v) - mean[r]) * inverse_sd[r]);
    });
    columns.add_sums(rows, grad_bias,
                     [&](int64_t r, int64_t v) { return columns.of(grad + r * width, v); });
  });
}

void add_bias(float* x, int64_t rows, int64_t width, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x + r * width;
    for (int64_t c = 0; c < width; ++c) row[c] += bias[c];
  }
}

void gelu_and_slope(float* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    const float given = x[i];
    const Normal normal = normal_at(given);
    to[i] = given * normal.below;
    x[i] = normal.below + given * (0.39894228F * normal.bell);
  }
}

void add_column_sums(ConstMatrix x, int64_t rows, int64_t width, float* sums,
                     const float* weights) {
  for_column_blocks(width, [&](const auto& columns) {
    if (weights == nullptr) {
      columns.add_sums(rows, sums, [&](int64_t r, int64_t v) { return columns.of(x[r], v); });
    } else {
      columns.add_sums(rows, sums,
                       [&](int64_t r, int64_t v) { return weights[r] * columns.of(x[r], v); });
    }
  });
}

void scale_rows(Matrix x, int64_t rows, int64_t width, const float* factors) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x.data + r * x.stride;
    const float factor = factors[r];
    for (int64_t c = 0; c < width; ++c) row[c] *= factor;
  }
}

void add_scaled_columns(ConstMatrix x, int64_t rows, int64_t width, const float* scales,
                        Matrix to) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* const from = x[r];
    float* const row = to[r];
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) row[c] += scales[c] * from[c];
  }
}

void add_column_products(ConstMatrix a, ConstMatrix b, int64_t rows, int64_t width, float* sums) {
  for_column_blocks(width, [&](const auto& columns) {
    columns.add_sums(rows, sums, [&](int64_t r, int64_t v) {
      return columns.of(a[r], v) * columns.of(b[r], v);
    });
  });
}

void row_products(ConstMatrix a, ConstMatrix b, int64_t rows, int64_t width, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *x = a.data + r * a.stride, *y = b.data + r * b.stride;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; ++c) sum += x[c] * y[c];
    to[r] = sum;
  }
}

void multiply_elements(const float* a, const float* b, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = a[i] * b[i];
}

void from_bfloat16(Rows<const uint16_t> x, int64_t rows, int64_t width, Matrix to) {
  const auto widen = [](const uint16_t* from, int64_t n, float* y) {
    for (int64_t i = 0; i < n; ++i) y[i] = std::bit_cast<float>(uint32_t{from[i]} << 16);
  };
  if (x.stride != width || to.stride != width) {
    for (int64_t r = 0; r < rows; ++r) {
      prefetch_rows(x, r + kRowsAhead, 1, width);
      widen(x[r], width, to[r]);
    }
    return;
  }
  constexpr int64_t kLine = 32, kAhead = 64 * kLine;
  const int64_t count = rows * width;
  for (int64_t i = 0; i < count; i += kLine) {
    prefetch_elements(x.data + i + kAhead, kLine);
    widen(x.data + i, std::min(kLine, count - i), to.data + i);
  }
}

void to_bfloat16(ConstMatrix x, int64_t rows, int64_t width, Rows<uint16_t> to) {
  for_long_rows(rows, width, x.stride != width || to.stride != width, [&](int64_t r, int64_t n) {
    const float* const from = x[r];
    uint16_t* const y = to[r];
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint16_t>(bfloat16_bits(from[i]));
  });
}

void add(const float* a, const float* b, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

void add_embeddings(const float* tokens, const float* positions, const int64_t* ids, int64_t first,
                    int64_t length, int64_t rows, int64_t width, float* to) {
  int64_t p = first % length;
  for (int64_t r = 0; r < rows; ++r) {
    add(tokens + ids[r] * width, positions + p * width, width, to + r * width);
    p = p + 1 == length ? 0 : p + 1;
  }
}

void add_embedding_grads(const float* grad, const int64_t* ids, int64_t first, int64_t length,
                         int64_t rows, int64_t width, float* tokens, float* positions) {
  int64_t p = first % length;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = grad + r * width;
    float* token = tokens + ids[r] * width;
    add(token, row, width, token);
    if (positions == nullptr) continue;
    float* position = positions + p * width;
    add(position, row, width, position);
    p = p + 1 == length ? 0 : p + 1;
  }
}

}  // namespace lra::ops::cpu::LRA_ISA
