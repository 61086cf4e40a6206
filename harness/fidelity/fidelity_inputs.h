// The queries, keys and values that fidelity experiments run on: random ones, and those of a
// trained model.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "attention_variants/torch.h"
#include "harness/training/open_run.h"
#include "results/records/fidelity.h"

namespace lra::fidelity {

/// One setting; a trial is one sample.
struct FidelityInputs {
  torch::Tensor q, k, v;  // [T,H,n,d], float64 where random, else float32
  torch::Tensor mask;     // [T,n] bool
  FidelityData data;
  std::optional<int64_t> layer;

  int64_t trials() const { return q.size(0); }
  int64_t heads() const { return q.size(1); }
  int64_t length() const { return q.size(2); }
  int64_t head_dim() const { return q.size(3); }
};

/// Standard normal q, k and v; all positions are tokens. The same on every device.
FidelityInputs random_inputs(int64_t trials, int64_t heads, int64_t length, int64_t head_dim,
                             uint64_t seed, torch::Device device);

/// What a run's attention layers see in dev data, at its best checkpoint.
class TrainedInputs {
 public:
  /// As open_run(); throws Error also where the run's attention does not project to queries, keys
  /// and values.
  TrainedInputs(const std::filesystem::path& run, const std::filesystem::path& data,
                torch::Device device);

  /// q, k and v of each layer for the first `trials` dev samples of at least `length` tokens, cut
  /// to that length; of samples with several inputs, the first. There may be fewer samples than
  /// trials. Throws Unsupported where the model reads no such length or no sample is as long.
  std::vector<FidelityInputs> layers(int64_t trials, int64_t length) const;

  const FidelityData& data() const { return data_; }
  int64_t heads() const { return run_.config.settings.model.heads; }
  int64_t head_dim() const { return run_.config.settings.model.head_dim; }

 private:
  OpenedRun run_;
  FidelityData data_;
  torch::Device device_;
};

}  // namespace lra::fidelity
