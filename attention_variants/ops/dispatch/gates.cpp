#include "attention_variants/ops/gates.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<GeluCall> kGelu[] = {{cpu::takes, cpu::run}, {nullptr, reference::run}};
constexpr Implementation<SigmoidGateCall> kSigmoidGate[] = {{cpu::takes, cpu::run},
                                                            {nullptr, reference::run}};

torch::Tensor gated(Kernels asked, const SigmoidGateCall& call) {
  return run_recorded("lra::sigmoid_gate", kSigmoidGate, asked, Place::of(call.value), call.shape(),
                      call);
}

}  // namespace

torch::Tensor gelu(Kernels asked, const torch::Tensor& x, Gelu form) {
  const GeluCall call{.x = x, .form = form};
  return run_recorded("lra::gelu", kGelu, asked, Place::of(x), call.shape(), call);
}

torch::Tensor sigmoid_gate(Kernels asked, const torch::Tensor& value, const torch::Tensor& gate) {
  return gated(asked, {.value = value, .gate = gate});
}

torch::Tensor glu(Kernels asked, const torch::Tensor& rows) {
  return gated(asked, {.value = rows, .gate = {}});
}

}  // namespace lra::ops
