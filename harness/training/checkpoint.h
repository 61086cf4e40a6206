// Checkpoints: everything that decides the rest of a run, in one safetensors file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/torch.h"
#include "lra/formats/safetensors.h"
#include "lra/model/model.h"
#include "results/records/result.h"

namespace lra {

/// Of TrainState::waited_seconds, where the system does not tell.
inline constexpr double kNotMeasured = -1;

/// What a run is at, besides tensors.
struct TrainState {
  int64_t step = 0;        // steps done; also the position in the training stream
  int64_t best_step = -1;  // -1: dev has not been evaluated yet
  double best_accuracy = -1;
  bool evaluation_pending = false;   // stopped in the evaluation that belongs to this step
  std::optional<Accuracy> best_dev;  // of that evaluation
  double seconds = 0;                // of training so far, all tries together
  double train_seconds = 0;          // of these, in training steps
  int64_t peak_bytes = 0, evaluation_peak_bytes = 0;
  double waited_seconds = 0;  // of its threads, ready to run while others ran; or kNotMeasured
  int64_t sharing = 1;        // runs at a time on its GPU, at most; 1 in older checkpoints
  // What train_seconds, the peaks and waited_seconds are of: the machine in words, "" in
  // older checkpoints; the step where it took over, and `seconds` then.
  std::string setting;
  int64_t measured_from = 0;
  double seconds_before = 0;
  // The running means of the log line that is not written yet.
  double window_loss = 0;
  int64_t window_correct = 0, window_count = 0;

  template <class Fields>
  void fields(Fields& f) {
    f("step", step);
    f("best_step", best_step);
    f("best_accuracy", best_accuracy);
    f("evaluation_pending", evaluation_pending);
    json dev = best_dev ? make_accuracy(*best_dev) : json::object();
    f("best_dev", dev);
    best_dev = dev.empty() ? std::nullopt : std::optional(parse_accuracy(dev, "best_dev"));
    f("seconds", seconds);
    f("train_seconds", train_seconds);
    f("peak_bytes", peak_bytes);
    f("evaluation_peak_bytes", evaluation_peak_bytes);
    f("waited_seconds", waited_seconds);
    f("sharing", sharing);
    f("setting", setting);
    f("measured_from", measured_from);
    f("seconds_before", seconds_before);
    f("window_loss", window_loss);
    f("window_correct", window_correct);
    f("window_count", window_count);
  }
};

/// Writes parameters and buffers ("model.*") and, where `optimizer` is given, its state
/// ("optimizer.<kind>.<parameter>") and the random state of the CPU and of `device` ("random.*"),
/// with a SHA-256 of all of it ("sha256"), and one of what it says of the run ("metadata_sha256",
/// which older checkpoints lack). Atomic.
void save_checkpoint(const std::filesystem::path& path, const json& config, const TrainState& at,
                     Model& model, const torch::optim::AdamW* optimizer, torch::Device device);

/// Reads one back into `model` and, where given, `optimizer` and the random states, on the device
/// that each is on, wherever it was written: a GPU's random state that a CPU's run has not is begun
/// from the file's own digest. Throws Error naming the file where it is truncated, corrupted or of
/// another configuration (listing the keys that differ).
TrainState load_checkpoint(const std::filesystem::path& path, const json& config, Model& model,
                           torch::optim::AdamW* optimizer, torch::Device device);

/// The states of the generators of CPUs, of `device` and of Python.
class RandomStates {
 public:
  explicit RandomStates(torch::Device device);
  void put_back() const;

 private:
  torch::Device device_;
  torch::Tensor cpu_, gpu_, python_;  // where there are such
};

/// Puts them back at its end.
class KeptRandomStates {
 public:
  explicit KeptRandomStates(torch::Device device) : states_(device) {}
  ~KeptRandomStates() {
    try {
      states_.put_back();
    } catch (const std::exception&) {  // to throw here would end the process
    }
  }
  KeptRandomStates(const KeptRandomStates&) = delete;
  KeptRandomStates& operator=(const KeptRandomStates&) = delete;

 private:
  RandomStates states_;
};

/// What a pass changes beside its results, buffers and random states: one that is broken off and
/// repeated begins again where it began.
class RepeatablePass {
 public:
  RepeatablePass(Model& model, torch::Device device);
  /// Puts them back as they were.
  void rewind() const;

 private:
  Model& model_;
  std::vector<torch::Tensor> buffers_;
  RandomStates random_;
};

/// A checkpoint of any configuration.
struct Checkpoint {
  std::string sha256;  // of its tensors, names and bits
  json config;         // the identity of its run
  TrainState at;
  TensorFile file;
};

/// Throws Error naming the file where it is truncated, corrupted or no checkpoint.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// Copies `from` over `to`; throws Error that names the tensor and the file `path` where they are
/// not of one shape and type.
void assign_tensor(torch::Tensor to, const torch::Tensor& from, const std::string& name,
                   const std::string& path);

/// SHA-256 over parameters and buffers, names and bits.
std::string state_sha256(const Model& model);

}  // namespace lra
