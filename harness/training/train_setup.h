// What a run is set up from before its first step.
#pragma once

#include <memory>
#include <optional>

#include "harness/steps/batch_feed.h"
#include "harness/training/train.h"
#include "lra/data/prepared.h"
#include "results/records/contract_record.h"

namespace lra {

/// The data of a run of this configuration, without the test split where that is not to be read.
PreparedData open_run_data(const std::filesystem::path& data, const Config& config,
                           bool check_hashes);

/// Throws Error where a split would leave nothing to train on or to evaluate, and where images that
/// are larger than the protocol's would be cut to their first rows unasked: the data's `resolution`
/// is more than `input.length` has room for, which nobody set.
void check_data(const PreparedData& data, const Config& config);

/// What config.json says: the configuration, `identity`, the data, and where the run runs.
json run_config_json(const TrainRequest& request, const Manifest& manifest, const json& identity,
                     const std::optional<ContractRecord>& contract);

/// Makes CPU tensors beyond the limit of this process an error.
void limit_memory(const TrainRequest& request);

/// This process's share of each batch, from step `step` on.
std::unique_ptr<BatchFeed> training_feed(const TrainRequest& request, const PreparedData& data,
                                         int64_t step);

}  // namespace lra
