// Loss and correct predictions, added up where they are computed.
#pragma once

#include <cstdint>

#include "attention_variants/torch.h"

namespace lra {

/// Running sums over training steps. Adding to them waits for no device; reading does.
class StepSums {
 public:
  explicit StepSums(torch::Device device);

  void set(double loss, int64_t correct);
  /// [2], loss and correct predictions, of any type, on the device.
  void add(const torch::Tensor& sums);
  void read(double& loss, int64_t& correct) const;

 private:
  torch::Tensor sums_;  // [2] float64: the same on every device as numbers added one by one
};

}  // namespace lra
