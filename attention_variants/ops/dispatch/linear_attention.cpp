#include "attention_variants/ops/linear_attention.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<LinearAttentionCall> kLinearAttention[] = {
    {cuda::takes, cuda::run, nullptr},
    {cpu::takes, cpu::run, cpu::bytes},
    {nullptr, reference::run, reference::bytes}};

}  // namespace

torch::Tensor linear_attention(Kernels asked, const LinearAttentionCall& call) {
  return run_recorded("lra::linear_attention", kLinearAttention, asked, Place::of(call.q),
                      call.shape(), call);
}

int64_t linear_attention_bytes(Kernels asked, const LinearAttentionShape& shape) {
  return pick(kLinearAttention, asked, Place::of_bytes(shape.element_size), shape).bytes(shape);
}

}  // namespace lra::ops
