#include "attention_variants/ops/landmark_attention.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<LandmarkCall> kLandmarkAttention[] = {
    {cuda::takes, cuda::run, nullptr},
    {cpu::takes, cpu::run, cpu::bytes},
    {nullptr, reference::run, reference::bytes}};

}  // namespace

torch::Tensor landmark_attention(Kernels asked, const LandmarkCall& call) {
  return run_recorded("lra::landmark_attention", kLandmarkAttention, asked, Place::of(call.q),
                      call.shape(), call);
}

int64_t landmark_attention_bytes(Kernels asked, const LandmarkShape& shape) {
  return pick(kLandmarkAttention, asked, Place::of_bytes(shape.element_size), shape).bytes(shape);
}

int64_t landmark_attention_flops(const LandmarkShape& s) {
  // The work of a decomposition depends on its convergence.
  if (s.options.exact_inverse) return -1;
  const int64_t m = s.options.landmarks, d = s.head_dim;
  const int64_t outer = 8 * s.length * m * d;  // Q̃Kᵀ, BV, QK̃ᵀ, FX
  const int64_t inner =
      4 * m * m * d + s.options.iterations * 8 * m * m * m;  // Q̃K̃ᵀ, ZX and the iteration
  const int64_t convolution = 2 * s.length * d * s.conv_kernel;
  return s.batch * s.heads * (outer + inner + convolution);
}

}  // namespace lra::ops
