#include "attention_variants/ops/dropout.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<DropoutCall> kDropout[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};

}  // namespace

torch::Tensor philox_dropout(const torch::Tensor& x, double p, bool training) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout should have a probability from 0 to 1, not ", p);
  if (!training || p == 0) return x;
  return run_recorded("lra::dropout", kDropout, Kernels::fused, Place::of(x), {.p = p}, {x, p});
}

}  // namespace lra::ops
