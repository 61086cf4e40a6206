// A run folder opened again: its configuration, data and trained model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "attention_variants/torch.h"
#include "harness/training/checkpoint.h"
#include "lra/data/prepared.h"
#include "lra/model/model.h"

namespace lra {

enum class CheckpointKind { best, last };
constexpr auto names(CheckpointKind) { return std::array{"best", "last"}; }

struct OpenedRun {
  Config config;
  PreparedData data;
  std::shared_ptr<Model> model;  // on the device, in training mode as made
  TrainState at;                 // of the checkpoint
};

/// Opens `run` at a checkpoint. `data` is the folder of the prepared data;
/// empty: the run's own. Throws Error that says what is missing and what to do, and where
/// checkpoint, configuration and data (by fingerprint) do not belong together. Splits that are not
/// wanted stay unread, but for the test split of a run that chose on it.
OpenedRun open_run(const std::filesystem::path& run, const std::filesystem::path& data,
                   CheckpointKind checkpoint, torch::Device device,
                   OpenedSplits wanted = OpenedSplits::all);

}  // namespace lra
