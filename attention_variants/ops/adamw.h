// AdamW over all parameters in one call.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// torch::optim::AdamW, with its options and state, whose step() goes over all parameters in one
/// operator of LibTorch and not in a dozen each. The same up to rounding; no AMSGrad, no closure.
class FusedAdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace lra::ops
