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

torch::Tensor linear_attention(Kernels asked, const LinearAttentionCall& given) {
  const Place place = Place::of(given.q);
  LinearAttentionCall call = given;
  if (place.autocast && place.autocast_ok && is_projected(call.options.map) &&
      call.table.scalar_type() == torch::kFloat)
    call.table = call.table.to(torch::kBFloat16).to(torch::kFloat);
  return run_recorded("lra::linear_attention", kLinearAttention, asked, place, call.shape(), call);
}

int64_t linear_attention_bytes(Kernels asked, const LinearAttentionShape& shape) {
  return pick(kLinearAttention, asked, Place::of_bytes(shape.element_size), shape).bytes(shape);
}

int64_t linear_attention_flops(const LinearAttentionShape& s) {
  const int64_t features =
      is_projected(s.options.map) ? 4 * s.length * s.width * s.head_dim : 0;  // Q Wᵀ, K Wᵀ
  // φ(K)ᵀ [V, 1] and φ(Q) times it.
  const int64_t products = 4 * s.length * s.width * (s.head_dim + (s.options.normalise ? 1 : 0));
  return s.batch * s.heads * (features + products);
}

}  // namespace lra::ops
