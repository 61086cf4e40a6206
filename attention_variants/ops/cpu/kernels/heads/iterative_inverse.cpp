#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"

#include <algorithm>
#include <utility>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr float kLeastNorm = 0.5F;  // below it A is zero: a sample with no landmark at all

// to = diagonal * I - from, all [m,m].
void from_diagonal(int64_t m, float diagonal, const float* from, float* to) {
  for (int64_t i = 0; i < m * m; ++i) to[i] = -from[i];
  for (int64_t i = 0; i < m; ++i) to[i * m + i] += diagonal;
}

// z = aᵀ / norm. sums [m] gets the sums of a's columns, whose largest is the norm where none is
// given.
void start(int64_t m, ConstMatrix a, std::optional<float> norm, Matrix z, float* sums) {
  const float own = column_norm(m, a, sums), divisor = std::max(norm.value_or(own), kLeastNorm);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < m; ++j) z[j][i] = a[i][j] / divisor;
  }
}

// From step.z to the next Z.
void iterate(int64_t m, ConstMatrix a, const InverseIterate& step, Matrix next) {
  gemm(m, m, m, a, step.z, step.az);
  from_diagonal(m, 7, step.az.data, step.seven.data);
  gemm(m, m, m, step.az, step.seven, step.thirteen);  // temporary
  from_diagonal(m, 15, step.thirteen.data, step.fifteen.data);
  gemm(m, m, m, step.az, step.fifteen, next);  // temporary
  from_diagonal(m, 13, next.data, step.thirteen.data);
  gemm(m, m, m, step.z, step.thirteen, next, {.product = 0.25F});
}

}  // namespace

float column_norm(int64_t m, ConstMatrix a, float* sums) {
  std::fill(sums, sums + m, 0.0F);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < m; ++j) sums[j] += a.data[i * m + j];
  }
  return *std::max_element(sums, sums + m);
}

void inverse(int64_t m, int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix z,
             Arena& arena) {
  const Arena::Frame frame(arena);
  const InverseIterates iterates(m, 1, arena);
  const InverseIterate step = iterates[0];
  start(m, a, norm, z, iterates.column_sums);
  for (int64_t i = 0; i < iterations; ++i) {
    std::copy(z.data, z.data + m * m, step.z.data);
    iterate(m, a, step, z);
  }
}

void inverse_iterates(int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix z,
                      const InverseIterates& iterates) {
  const int64_t m = iterates.m;
  start(m, a, norm, iterations > 0 ? iterates[0].z : z, iterates.column_sums);
  for (int64_t i = 0; i < iterations; ++i)
    iterate(m, a, iterates[i], i + 1 < iterations ? iterates[i + 1].z : z);
}

float inverse_backward(int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix grad_z,
                       Matrix grad_a, const InverseIterates& iterates, Arena& arena) {
  const int64_t m = iterates.m, count = m * m;
  const Arena::Frame frame(arena);
  const auto [grad_az, outer, inner, grad_next] = InverseGradients(m, arena);
  std::fill(grad_a.data, grad_a.data + count, 0.0F);
  for (int64_t i = iterations - 1; i >= 0; --i) {
    const InverseIterate step = iterates[i];
    // next = Z T / 4, T = 13I - AZ U, U = 15I - AZ W, W = 7I - AZ.
    gemm_tn(m, m, m, step.z, grad_z, outer, {.product = -0.25F});  // of AZ U
    gemm_nt(m, m, m, grad_z, step.thirteen, grad_next, {.product = 0.25F});
    gemm_nt(m, m, m, outer, step.fifteen, grad_az);
    gemm_tn(m, m, m, step.az, outer, inner, {.product = -1});  // of AZ W
    gemm_nt(m, m, m, inner, step.seven, grad_az, {.old = 1});
    gemm_tn(m, m, m, step.az, inner, grad_az, {.product = -1, .old = 1});
    gemm_nt(m, m, m, grad_az, step.z, grad_a, {.old = 1});
    gemm_tn(m, m, m, a, grad_az, grad_next, {.old = 1});
    std::copy(grad_next.data, grad_next.data + count, grad_z.data);
  }
  // Z of the start: Aᵀ / norm.
  const float own = *std::max_element(iterates.column_sums, iterates.column_sums + m),
              taken = norm.value_or(own), divisor = std::max(taken, kLeastNorm);
  float along = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      grad_a[i][j] += grad_z[j][i] / divisor;
      along += grad_z[j][i] * a[i][j];
    }
  }
  const float grad_norm = taken < kLeastNorm ? 0.0F : -along / (divisor * divisor);
  if (norm) return grad_norm;
  column_norm_backward(m, iterates.column_sums, grad_norm, grad_a);
  return 0;
}

void column_norm_backward(int64_t m, const float* sums, float grad_norm, Matrix grad_a) {
  // Of the largest column, shared where there are several.
  const float largest = *std::max_element(sums, sums + m),
              each = grad_norm / static_cast<float>(std::count(sums, sums + m, largest));
  for (int64_t j = 0; j < m; ++j) {
    if (sums[j] != largest) continue;
    for (int64_t i = 0; i < m; ++i) grad_a[i][j] += each;
  }
}

}  // namespace lra::ops::cpu::LRA_ISA
