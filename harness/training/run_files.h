// The files of a run folder and how its parts become records.
#pragma once

#include <filesystem>
#include <optional>

#include "harness/training/checkpoint.h"
#include "harness/training/evaluation.h"
#include "harness/training/trainer.h"
#include "results/records/records.h"
#include "results/records/run_folder.h"

namespace lra {

inline constexpr const char* kLastCheckpoint = "checkpoint-last.safetensors";
inline constexpr const char* kBestCheckpoint = "checkpoint-best.safetensors";

/// What decides a run's numbers, and so what a checkpoint belongs to: the configuration and the
/// data's fingerprint.
json run_identity(const Config& config, const Manifest& manifest);

/// The record of an evaluation: counts, Wilson interval, accuracy in eight classes of length up to
/// `length`.
json accuracy_json(const Evaluation& evaluation, int64_t length);
Accuracy accuracy_record(const json& accuracy);

/// A record with what is known before training: task, attention, protocol, seed, data, machine,
/// software.
Result result_of(const TrainRequest& request, const Manifest& manifest, const Split& test);

/// The threads of the run in that folder, by its config.json; nothing where that does not say.
std::optional<int64_t> threads_of_run(const std::filesystem::path& run);

/// Reads a result.json; throws Error that names the file.
Result read_result(const std::filesystem::path& path);

/// Keeps the whole lines of metrics.jsonl that a run at `at` has behind it (a killed run may have
/// written more, or half a line): an evaluation that is pending is made again, and writes its line
/// again.
void cut_metrics(const std::filesystem::path& path, const TrainState& at);

}  // namespace lra
