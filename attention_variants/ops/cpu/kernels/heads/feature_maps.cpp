#include "attention_variants/ops/cpu/kernels/heads/feature_maps.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/rows/simd.h"
#include "attention_variants/ops/cpu/kernels/rows/transpose.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>;

LRA_INLINE float squared_norm(const float* x, int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < width; ++c) sum += x[c] * x[c];
  return sum;
}

// The first place where `value` stands; the last of the row where it stands nowhere (NaN).
LRA_INLINE int32_t place_of(float value, const float* row, int64_t width) {
  auto at = static_cast<int32_t>(width) - 1;
#pragma omp simd reduction(min : at)
  for (int32_t c = 0; c < static_cast<int32_t>(width); ++c)
    at = std::min(at, row[c] == value ? c : at);
  return at;
}

void elu_features(const FeatureTile& tile, int64_t width) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    prefetch_rows(tile.x, r + kRowsAhead, 1, width);
    const float* const x = tile.x[r];
    float* const to = tile.e + r * width;
    // elu(x) + 1 without its loss of digits below 0. NaN remains.
    for_columns(
        width, [&](auto lanes, int64_t c) __attribute__((always_inline)) {
          using Lanes = decltype(lanes);
          const typename Lanes::Vector given = Lanes::at(x + c), none = {};
          typename Lanes::Vector below = given >= none ? none : given * kLog2E;
          Lanes::exp2_in_place(below);
          Lanes::at(to + c) = below + (given > none ? given : none);
        });
  }
}

void cosine_features(const FeatureTile& tile, int64_t depth) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* x = tile.x.data + r * tile.x.stride;
    float* to = tile.e + r * 2 * depth;
    const float sine = tile.phases[2 * r], cosine = tile.phases[2 * r + 1];
    for (int64_t c = 0; c < depth; ++c) {
      const float above = std::max(x[c], 0.0F);
      to[c] = above * sine;
      to[depth + c] = above * cosine;
    }
  }
}

void relu_features(float* e, int64_t count) {
  for (int64_t i = 0; i < count; ++i) e[i] = std::max(e[i], 0.0F);
}

// row = exp(row - c - less). As powers of two where products and sums round together, c first,
// which leaves fewer digits to lose: else an exponent's own rounding is twice exp()'s.
LRA_INLINE void subtract_and_raise(float* row, int64_t width, float c, float less) {
#if defined(__FMA__)
  const float scaled = kLog2E * less;
  for_columns(
      width, [&](auto lanes, int64_t at) __attribute__((always_inline)) {
        using Lanes = decltype(lanes);
        typename Lanes::Vector x = (Lanes::at(row + at) - c) * kLog2E - scaled;
        Lanes::exp2_in_place(x);
        Lanes::at(row + at) = x;
      });
#else
  const float shift = less + c;
  for (int64_t i = 0; i < width; ++i) row[i] = exp(row[i] - shift);
#endif
}

// e = exp(e - norm ‖x‖² - c), c being each row's largest, whose number `largest` gets unless it is
// null (a float holds those of 2^24 features), or that of all.
void softmax_features(const FeatureTile& tile, int64_t depth, int64_t width, float norm,
                      const float* of_all, float* largest) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* const row = tile.e + r * width;
    const float c = of_all == nullptr ? cpu::largest(row, width) : *of_all;
    if (largest != nullptr) largest[r] = static_cast<float>(place_of(c, row, width));
    subtract_and_raise(row, width, c, norm * squared_norm(tile.x[r], depth));
  }
}

void elu_backward(const FeatureTile& tile, const FeatureGradient& gradient, int64_t width,
                  Matrix grad_x) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float *x = tile.x.data + r * tile.x.stride, *e = tile.e + r * width,
                *grad = gradient.grad + r * width;
    const float weight = gradient.weights == nullptr ? 1.0F : gradient.weights[r];
    float* to = grad_x.data + r * grad_x.stride;
    for (int64_t c = 0; c < width; ++c)
      to[c] = (grad[c] + weight * gradient.row[c]) * (x[c] > 0.0F ? 1.0F : e[c]);
  }
}

void cosine_backward(const FeatureTile& tile, const FeatureGradient& gradient, int64_t depth,
                     Matrix grad_x) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float *x = tile.x.data + r * tile.x.stride, *grad = gradient.grad + r * 2 * depth;
    const float weight = gradient.weights == nullptr ? 1.0F : gradient.weights[r],
                sine = tile.phases[2 * r], cosine = tile.phases[2 * r + 1];
    float* to = grad_x.data + r * grad_x.stride;
    for (int64_t c = 0; c < depth; ++c) {
      const float first = grad[c] + weight * gradient.row[c],
                  second = grad[depth + c] + weight * gradient.row[depth + c];
      to[c] = x[c] > 0.0F ? first * sine + second * cosine : 0.0F;
    }
  }
}

// grad becomes that of W x.
void relu_backward(const FeatureTile& tile, const FeatureGradient& gradient, int64_t width) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* e = tile.e + r * width;
    float* grad = gradient.grad + r * width;
    const float weight = gradient.weights == nullptr ? 1.0F : gradient.weights[r];
    const float* const row = gradient.row;
    for (int64_t c = 0; c < width; ++c) {
      const float slope = grad[c] + weight * row[c];
      grad[c] = e[c] > 0.0F ? slope : 0.0F;
    }
  }
}

// grad becomes that of W x, and the row of grad_x that of norm ‖x‖² alone; returns the sum of all
// rows' gradients.
float softmax_backward(const FeatureTile& tile, const FeatureGradient& gradient, int64_t depth,
                       int64_t width, float norm, const float* largest, Matrix grad_x) {
  float total = 0;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float *x = tile.x.data + r * tile.x.stride, *e = tile.e + r * width;
    float* grad = gradient.grad + r * width;
    const float weight = gradient.weights == nullptr ? 1.0F : gradient.weights[r];
    const float* const row = gradient.row;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; ++c) {
      const float slope = (grad[c] + weight * row[c]) * e[c];
      grad[c] = slope;
      sum += slope;
    }
    if (largest != nullptr) grad[static_cast<int64_t>(largest[r])] -= sum;
    float* to = grad_x.data + r * grad_x.stride;
    for (int64_t c = 0; c < depth; ++c) to[c] = -2 * norm * sum * x[c];
    total += sum;
  }
  return total;
}

}  // namespace

void prepare_projection(const LinearHeadShape& shape, Matrix w) {
  if (shape.projection == nullptr) return;
  transpose({shape.projection, shape.depth}, shape.width, shape.depth, w);
}

void project(const LinearHeadShape& shape, ConstMatrix w, const FeatureTile& tile) {
  if (shape.projection == nullptr) return;
  // An exponent of numbers rounded here would be off by a quarter.
  const GemmPrecisionScope exact(shape.rounded ? gemm_precision() : GemmPrecision::float32);
  gemm(tile.rows, shape.width, shape.depth, tile.x, w, {tile.e, shape.width});
}

Largest largest_of(const float* e, const bool* seen, int64_t rows, int64_t features) {
  Largest found{.value = -std::numeric_limits<float>::infinity()};
  for (int64_t r = 0; r < rows; ++r) {
    if (seen != nullptr && !seen[r]) continue;
    const float value = cpu::largest(e + r * features, features);
    if (value > found.value) found = {.value = value, .row = r};
  }
  found.feature = place_of(found.value, e + found.row * features, features);
  return found;
}

void key_features(const LinearHeadShape& shape, const FeatureTile& tile, const bool* seen,
                  float largest) {
  if (shape.map == FeatureMap::softmax) {
    softmax_features(tile, shape.depth, shape.width, shape.norm, &largest, nullptr);
  } else {
    query_features(shape, tile, nullptr);
  }
  if (seen == nullptr) return;
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (!seen[r]) std::fill_n(tile.e + r * shape.width, shape.width, 0.0F);
  }
}

void query_features(const LinearHeadShape& shape, const FeatureTile& tile, float* largest) {
  switch (shape.map) {
    case FeatureMap::elu:
      return elu_features(tile, shape.width);
    case FeatureMap::cosine:
      return cosine_features(tile, shape.depth);
    case FeatureMap::relu:
      return relu_features(tile.e, tile.rows * shape.width);
    case FeatureMap::softmax:
      return softmax_features(tile, shape.depth, shape.width, shape.norm, nullptr, largest);
  }
}

float features_backward(const LinearHeadShape& shape, const FeatureTile& tile,
                        const FeatureGradient& gradient, const float* largest, Matrix grad_x) {
  const auto through_projection = [&](float old) {
    gemm(tile.rows, shape.depth, shape.width, {gradient.grad, shape.width},
         {shape.projection, shape.depth}, grad_x, {.old = old});
  };
  float sum = 0;
  switch (shape.map) {
    case FeatureMap::elu:
      elu_backward(tile, gradient, shape.width, grad_x);
      break;
    case FeatureMap::cosine:
      cosine_backward(tile, gradient, shape.depth, grad_x);
      break;
    case FeatureMap::relu:
      relu_backward(tile, gradient, shape.width);
      through_projection(0);
      break;
    case FeatureMap::softmax:
      sum = softmax_backward(tile, gradient, shape.depth, shape.width, shape.norm, largest, grad_x);
      through_projection(1);
      break;
  }
  return sum;
}

}  // namespace lra::ops::cpu::LRA_ISA
