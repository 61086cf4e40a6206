#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"

#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Rows whose sums are made one after the other before anything waits for one of them.
constexpr int64_t kRows = 16;

}  // namespace

void normalise_rows(const float* x, int64_t rows, int64_t width, const float* weight,
                    const float* bias, float eps, float* to, float* mean, float* inverse_sd) {
  const float share = 1.0F / static_cast<float>(width);
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t end = std::min(begin + kRows, rows);
    for (int64_t r = begin; r < end; ++r) {
      const float* from = x + r * width;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < width; ++c) sum += from[c];
      mean[r] = sum * share;
    }
    for (int64_t r = begin; r < end; ++r) {
      const float* from = x + r * width;
      const float middle = mean[r];
      float squares = 0;
#pragma omp simd reduction(+ : squares)
      for (int64_t c = 0; c < width; ++c) squares += (from[c] - middle) * (from[c] - middle);
      inverse_sd[r] = squares;
    }
    for (int64_t r = begin; r < end; ++r)
      inverse_sd[r] = 1.0F / std::sqrt(inverse_sd[r] * share + eps);
    for (int64_t r = begin; r < end; ++r) {
      const float* from = x + r * width;
      const float middle = mean[r], inverse = inverse_sd[r];
      float* row = to + r * width;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c)
        row[c] = (from[c] - middle) * inverse * weight[c] + bias[c];
    }
  }
}

void normalise_rows_backward(const float* x, const float* grad, int64_t rows, int64_t width,
                             const float* weight, const float* mean, const float* inverse_sd,
                             float* grad_x, float* grad_weight, float* grad_bias) {
  const float share = 1.0F / static_cast<float>(width);
  for (int64_t r = 0; r < rows; ++r) {
    const float *from = x + r * width, *given = grad + r * width;
    float* row = grad_x + r * width;
    const float middle = mean[r], inverse = inverse_sd[r];
    float sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
    for (int64_t c = 0; c < width; ++c) {
      const float scaled = given[c] * weight[c];
      sum += scaled;
      along += scaled * (from[c] - middle);
    }
    // grad_x += (scaled - mean of scaled - normal * mean of scaled normal) / sd
    sum *= share;
    const float slope = along * inverse * inverse * share;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c)
      row[c] += (given[c] * weight[c] - sum - (from[c] - middle) * slope) * inverse;
  }
  // Sums by themselves first, as in add_column_sums(), and a few columns at a time.
  constexpr int64_t kColumns = 32;
  for (int64_t begin = 0; begin < width; begin += kColumns) {
    float to_weight[kColumns] = {}, to_bias[kColumns] = {};
    const int64_t columns = std::min(kColumns, width - begin);
    for (int64_t r = 0; r < rows; ++r) {
      const float *from = x + r * width + begin, *given = grad + r * width + begin;
      for (int64_t c = 0; c < columns; ++c) {
        to_weight[c] += given[c] * ((from[c] - mean[r]) * inverse_sd[r]);
        to_bias[c] += given[c];
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      grad_weight[begin + c] += to_weight[c];
      grad_bias[begin + c] += to_bias[c];
    }
  }
}

void add_bias(float* x, int64_t rows, int64_t width, const float* bias) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x + r * width;
    for (int64_t c = 0; c < width; ++c) row[c] += bias[c];
  }
}

void gelu(const float* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0.5F * x[i] * (1.0F + erf(x[i] * 0.70710678F));
}

void gelu_and_slope(float* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    const float given = x[i], below = 0.5F * (1.0F + erf(given * 0.70710678F)),
                density = 0.39894228F * exp(-0.5F * given * given);
    to[i] = given * below;
    x[i] = below + given * density;
  }
}

void add_column_sums(ConstMatrix x, int64_t rows, int64_t width, float* sums,
                     const float* weights) {
  // By themselves first, so that the rounding of a long sum grows with the tiles and not the rows.
  constexpr int64_t kColumns = 64;
  for (int64_t begin = 0; begin < width; begin += kColumns) {
    const int64_t columns = std::min(kColumns, width - begin);
    float part[kColumns] = {};
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data + r * x.stride + begin;
      const float weight = weights == nullptr ? 1.0F : weights[r];
      for (int64_t c = 0; c < columns; ++c) part[c] += weight * row[c];
    }
    for (int64_t c = 0; c < columns; ++c) sums[begin + c] += part[c];
  }
}

void scale_rows(Matrix x, int64_t rows, int64_t width, const float* factors) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x.data + r * x.stride;
    const float factor = factors[r];
    for (int64_t c = 0; c < width; ++c) row[c] *= factor;
  }
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

void add(const float* a, const float* b, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

}  // namespace lra::ops::cpu::LRA_ISA
