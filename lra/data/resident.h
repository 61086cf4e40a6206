// Samples that stay in the memory of the device that trains on them.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_variants/torch.h"
#include "lra/data/loader.h"

namespace lra {

/// All samples of some splits on a device, cut and padded as a loader would. A batch is gathered
/// there, without a copy from the host.
class ResidentSamples {
 public:
  ResidentSamples(const std::vector<Split>& splits, const LoaderOptions& options,
                  torch::Device device);

  /// What such an object takes on the device, in bytes.
  static int64_t bytes(const std::vector<Split>& splits, const LoaderOptions& options);

  /// Samples `rows` [B] int64, on the device, which count through all splits; `full` is left false.
  Batch batch(const torch::Tensor& rows) const;
  /// Whether a batch of these rows has no padding.
  bool is_full(const std::vector<int64_t>& rows) const;

 private:
  LoaderOptions options_;
  torch::Tensor tokens_;    // [samples,inputs,N], uint8 or int32, padded with 0
  torch::Tensor lengths_;   // [samples,inputs] int64: tokens of each input
  torch::Tensor labels_;    // [samples] int64, or [samples,N]
  torch::Tensor position_;  // [N] int64: 0 to N - 1
  std::vector<bool> full_;  // of each sample
};

/// The batches of a TrainingStream, gathered on a device.
class ResidentStream {
 public:
  ResidentStream(const std::vector<Split>& splits, const LoaderOptions& options,
                 torch::Device device, int64_t start_batch = 0);
  Batch next();

 private:
  void look_ahead();

  ResidentSamples samples_;
  TrainingOrder order_;
  torch::Device device_;
  // Of the batches to come: their rows, one after another, on the device.
  torch::Tensor rows_;
  std::vector<bool> full_;
  size_t taken_ = 0;
};

}  // namespace lra
