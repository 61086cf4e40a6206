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

}  // namespace lra::ops
