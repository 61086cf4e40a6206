// One training run in a folder: train, evaluate dev, keep the best, test it once; resumes to the
// same bits.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <string>

#include "lra/protocol.h"

namespace lra {

enum class Resume { no, yes };

struct TrainRequest {
  Config config;
  std::filesystem::path
      run;  // the folder; design: config.json, metrics.jsonl, checkpoints, predictions, result.json
  std::filesystem::path data;  // of `lra data prepare --out`
  torch::Device device = torch::kCPU;
  int64_t threads = 0;  // as set
  Resume resume = Resume::no;
};

/// Runs to the end and returns the status written to result.json ("ok", "diverged", "oom",
/// "unsupported"). Throws Error where the folder is in use or holds another run, data are missing
/// or broken, or the disk is full; Interrupted after Ctrl-C, with a checkpoint written.
std::string train(const TrainRequest& request);

/// A lock on a folder for the life of this object; throws Error where a live process holds it.
/// Freed by the system when its holder dies.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace lra
