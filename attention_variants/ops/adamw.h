// AdamW over all parameters in one call.
#pragma once

#include <optional>

#include "attention_variants/torch.h"

namespace lra::ops {

/// torch::optim::AdamW, with its options and state, whose step() goes over all parameters in one
/// operator of LibTorch and not in a dozen each. The same up to rounding; no AMSGrad, no closure.
/// Nothing is read from the device.
class FusedAdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;

  // step() in two, where the update is recorded once and run many times, as in a CUDA graph. One
  // group of parameters, all of which have taken as many steps; else c10::Error is thrown.

  /// From now on updates read the learning rate (in float32) and the number of the step on the
  /// parameters' device.
  void read_on_device();
  /// What goes before each run of a recorded update: counts a step of all parameters that have
  /// taken one, and writes what is read on the device.
  void advance();
  /// The update to record.
  void update();

 private:
  struct Scalars {
    torch::Tensor rate, step;  // [] float32
  };
  void count_step(const torch::Tensor& parameter);
  void write_scalars();

  std::optional<Scalars> scalars_;
};

}  // namespace lra::ops
