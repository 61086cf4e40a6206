#include "attention_variants/ops/cpu/kernels/heads/landmark_matrix.h"

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cpu/kernels/heads/segment_means.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Makes landmarks, A and the sums of its columns.
float make_norm(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in,
                const LandmarkHeadNormScratch& scratch) {
  const Segments segments(shape.length, shape.landmarks);
  segment_means(segments, shape.over, in.q, in.mask, shape.depth, scratch.q, scratch.bias);
  segment_means(segments, shape.over, in.k, in.mask, shape.depth, scratch.k, scratch.bias);
  landmark_matrix(shape, scratch.q, scratch.k, scratch.bias, scratch.a);
  return column_norm(shape.landmarks, scratch.a, scratch.column_sums);
}

}  // namespace

float landmark_scale(const LandmarkHeadShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.depth));
}

void landmark_matrix(const LandmarkHeadShape& shape, ConstMatrix q, ConstMatrix k,
                     const float* bias, Matrix a) {
  const int64_t m = shape.landmarks;
  gemm_nt(m, m, shape.depth, q, k, a, {.product = landmark_scale(shape)});
  softmax_rows(a.data, m, m, bias);
  for (int64_t i = 0; i < m; ++i) {
    if (bias[i] != 0) std::fill(a[i], a[i] + m, 0.0F);
  }
}

float landmark_norm(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in, Arena& arena) {
  const GemmPrecisionScope exact(GemmPrecision::float32);
  const Arena::Frame frame(arena);
  return make_norm(shape, in, LandmarkHeadNormScratch(shape, arena));
}

void landmark_norm_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& in,
                            float grad_norm, const LandmarkHeadGradients& grad, Arena& arena) {
  const int64_t m = shape.landmarks, d = shape.depth;
  const GemmPrecisionScope exact(GemmPrecision::float32);
  const Arena::Frame frame(arena);
  const LandmarkHeadNormScratch scratch(shape, arena);
  make_norm(shape, in, scratch);
  std::fill(scratch.grad_a.data, scratch.grad_a.data + m * m, 0.0F);
  column_norm_backward(m, scratch.column_sums, grad_norm, scratch.grad_a);
  softmax_rows_backward(scratch.a.data, scratch.grad_a.data, m, m, landmark_scale(shape));
  const Segments segments(shape.length, m);
  gemm(m, d, m, scratch.grad_a, scratch.k, scratch.grad);
  segment_means_backward(segments, shape.over, in.mask, d, scratch.grad, grad.q);
  gemm_tn(m, d, m, scratch.grad_a, scratch.q, scratch.grad);
  segment_means_backward(segments, shape.over, in.mask, d, scratch.grad, grad.k);
}

}  // namespace lra::ops::cpu::LRA_ISA
