// What ends a layer of rows: GELU, and gates of rows by a sigmoid. Differentiable once by the own
// kernels, which keep nothing but what they were given.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct ElementsShape {
  int64_t count = 0;
  bool alike = true;  // rows of one size, of float32 or bfloat16 where they are not of one type
};

struct GeluCall {
  using Result = torch::Tensor;
  using Shape = ElementsShape;
  torch::Tensor x;
  Gelu form = Gelu::exact;

  Shape shape() const { return {.count = x.numel(), .alike = x.dim() > 0}; }
};

/// GELU of x, of any shape.
torch::Tensor gelu(Kernels asked, const torch::Tensor& x, Gelu form);

struct SigmoidGateCall {
  using Result = torch::Tensor;
  using Shape = ElementsShape;
  torch::Tensor value, gate;

  Shape shape() const {
    if (!gate.defined())
      return {.count = value.numel() / 2, .alike = value.dim() > 0 && value.size(-1) % 2 == 0};
    const auto stored = [](const torch::Tensor& rows) {
      return rows.scalar_type() == torch::kFloat || rows.scalar_type() == torch::kBFloat16;
    };
    const bool types = value.scalar_type() == gate.scalar_type() || (stored(value) && stored(gate));
    return {.count = value.numel(),
            .alike = value.dim() > 0 && value.sizes() == gate.sizes() && types};
  }
};

/// value σ(gate), both [..,D]; LibTorch's operators take what broadcasts, too.
torch::Tensor sigmoid_gate(Kernels asked, const torch::Tensor& value, const torch::Tensor& gate);

/// The gated linear unit (Dauphin et al., ICML 2017): of rows [..,2D] the first half times σ of the
/// second. Throws LibTorch's error for an odd width.
torch::Tensor glu(Kernels asked, const torch::Tensor& rows);

}  // namespace lra::ops
