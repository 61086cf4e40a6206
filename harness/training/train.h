// One training run in a folder: train, evaluate dev, keep the best, test it once (unless
// evaluation.test says no); resumes to the same bits.
#pragma once

#include <filesystem>

#include "attention_variants/torch.h"
#include "harness/training/contract_check.h"
#include "harness/training/run_folder.h"
#include "lra/config/protocol.h"
#include "results/records/status.h"

namespace lra {

class Processes;

struct TrainRequest {
  Config config;
  // The folder: config.json, metrics.jsonl, checkpoints, predictions, result.json.
  std::filesystem::path run;
  std::filesystem::path data;  // of `lra data prepare --out`
  // A run folder or a checkpoint whose weights, but for the head, the run starts from; empty =
  // none.
  std::filesystem::path init_from;
  torch::Device device = torch::kCPU;
  int64_t threads = 0;       // as set
  int64_t sharing = 1;       // runs at a time on its GPU, as far as its runner knows
  int64_t memory_limit = 0;  // bytes of tensors on a CPU; 0 = 80 % of what is free at the start
  Resume resume = Resume::no;
  ContractCheck check = ContractCheck::own;
  std::filesystem::path event_files;  // a folder for TensorBoard's; empty = none
  Processes* processes = nullptr;     // that train together; null = this one alone
};

/// Runs to the end and returns the status written to result.json (ok, diverged, oom,
/// unsupported). Throws Error where the folder is in use or holds another run, data are missing
/// or broken, or the disk is full; Interrupted after Ctrl-C, with a checkpoint written. Several
/// processes share out each batch and each evaluation, and the first writes all files; what any of
/// them throws, all do.
Status train_run(const TrainRequest& request);

/// train_run(), of a configuration with `pretraining` of two runs: that of pretraining_config() in
/// the folder's own "pretraining", then the run itself, which starts from it. Continued, it goes on
/// where it was in either. The status is that of the first run that is not ok.
Status train(const TrainRequest& request);

}  // namespace lra
