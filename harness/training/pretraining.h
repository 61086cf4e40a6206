// Runs that start from the weights of another.
#pragma once

#include <optional>

#include "harness/training/checkpoint.h"
#include "harness/training/train.h"
#include "results/records/result.h"

namespace lra {

/// What a run starts from.
struct Origin {
  PretrainingRecord record;
  std::optional<Checkpoint> checkpoint;  // none where the run has begun: its own go on
};

/// That of `request.init_from`; nothing where that is empty. Of a run that is continued from the
/// same path it is what its config.json says, and nothing else is read. Throws Error that says
/// what does not fit where the origin is of another task or attention, or was trained on other data
/// than those with this fingerprint, which may hold samples that are tested here.
std::optional<Origin> origin_of(const TrainRequest& request, const std::string& fingerprint);

/// The request with what its configuration says of the origin.
TrainRequest with_origin(TrainRequest request, const std::optional<Origin>& origin);

/// Copies the origin's parameters and buffers into the model, all but the head, and the vector of
/// hidden tokens where one side has none; names in the record, and in the configuration's, what was
/// taken and what not, says so, and lets go of the checkpoint. Throws Error that names the first
/// tensor that is not in both, or of another shape.
void start_from(Origin& origin, Model& model, Config& config);

}  // namespace lra
