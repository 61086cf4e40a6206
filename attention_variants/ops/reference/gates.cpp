#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {

torch::Tensor run(const GeluCall& call) {
  return torch::gelu(call.x, call.form == Gelu::tanh ? "tanh" : "none");
}

torch::Tensor run(const SigmoidGateCall& call) {
  return call.gate.defined() ? call.value * call.gate.sigmoid() : torch::glu(call.value, -1);
}

}  // namespace lra::ops::reference
