#include "attention_variants/ops/softmax_attention.h"

#include <algorithm>

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<SoftmaxAttentionCall> kSoftmaxAttention[] = {
    {cuda::takes, cuda::run, nullptr},
    {cpu::takes, cpu::run, cpu::bytes},
    {nullptr, reference::run, reference::bytes}};

}  // namespace

torch::Tensor softmax_attention(Kernels asked, const SoftmaxAttentionCall& call) {
  const torch::Tensor& bias = call.distance_bias;
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) % 2 == 1),
              "a bias of distances should be [2R-1], not ", bias.sizes());
  const SoftmaxAttentionShape shape = call.shape();
  TORCH_CHECK(!bias.defined() || shape.reach >= std::max(shape.queries, shape.keys),
              "a bias of distances should reach ", std::max(shape.queries, shape.keys),
              " positions, not ", shape.reach);
  return run_recorded("lra::softmax_attention", kSoftmaxAttention, asked, Place::of(call.q), shape,
                      call);
}

int64_t softmax_attention_bytes(Kernels asked, const SoftmaxAttentionShape& shape) {
  return pick(kSoftmaxAttention, asked, Place::of_bytes(shape.element_size), shape).bytes(shape);
}

}  // namespace lra::ops
