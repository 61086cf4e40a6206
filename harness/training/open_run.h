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

/// The model of a run alone.
struct TrainedModel {
  Config config;
  std::shared_ptr<Model> model;  // on the device, in training mode as made
  TrainState at;                 // of the checkpoint
};

/// The model of `run` at a checkpoint, wherever its data have gone. Throws Error that says what is
/// missing and what to do, and where checkpoint and configuration do not belong together.
TrainedModel open_model(const std::filesystem::path& run, CheckpointKind checkpoint,
                        torch::Device device);

/// The attention's name in the run's config.json; "" where there is none, which open_run() and
/// open_model() tell.
std::string attention_of(const std::filesystem::path& run);

struct OpenedRun : TrainedModel {
  PreparedData data;
};

/// Opens `run` at a checkpoint. `data` is the folder of the prepared data;
/// empty: the run's own. Throws Error that says what is missing and what to do, and where
/// checkpoint, configuration and data (by fingerprint) do not belong together. Splits that are not
/// wanted stay unread, but for the test split of a run that chose on it.
OpenedRun open_run(const std::filesystem::path& run, const std::filesystem::path& data,
                   CheckpointKind checkpoint, torch::Device device,
                   OpenedSplits wanted = OpenedSplits::all);

}  // namespace lra
