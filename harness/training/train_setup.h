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

/// Samples of a task that cuts none (Task::whole_samples) that are cut.
struct CutSamples {
  int64_t kept = 0;         // tokens of each
  int64_t longest = 0;      // of all splits that are read
  int64_t cut = 0, of = 0;  // of those that are trained on

  /// "WARNING: 3 of 8000 training samples of listops are longer than input.length (256) ..."
  std::string warning(const Config& config) const;
};

/// Nothing where samples may be cut, or none is.
std::optional<CutSamples> cut_samples(const PreparedData& data, const Config& config);

/// Says so at the start of a run whose user set `input.length`; any other is refused by
/// check_data().
void say_cut_samples(const TrainRequest& request);

/// What config.json says: the configuration, `identity`, the data, and where the run runs.
json run_config_json(const TrainRequest& request, const Manifest& manifest, const json& identity,
                     const std::optional<ContractRecord>& contract);

/// Makes CPU tensors beyond the limit of this process an error.
void limit_memory(const TrainRequest& request);

/// Parts of each process's share of a batch.
int64_t micro_batches_of(const TrainRequest& request);

/// This process's share of each batch, from step `step` on.
std::unique_ptr<BatchFeed> training_feed(const TrainRequest& request, const PreparedData& data,
                                         int64_t step);

}  // namespace lra
