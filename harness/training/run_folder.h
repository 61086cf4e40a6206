// The folder of a run: what it holds, and who may write there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "attention_variants/base/append_file.h"
#include "harness/host/folder_lock.h"
#include "harness/training/checkpoint.h"
#include "harness/training/evaluation.h"
#include "lra/config/protocol.h"
#include "lra/data/prepared.h"
#include "results/records/file_names.h"
#include "results/records/result.h"
#include "results/records/run_log.h"

namespace lra {

inline constexpr const char* kLastCheckpoint = "checkpoint-last.safetensors";
inline constexpr const char* kBestCheckpoint = "checkpoint-best.safetensors";
/// The next best, until the last checkpoint says that it is.
inline constexpr const char* kNextBestCheckpoint = "checkpoint-next-best.safetensors";
/// The file of an attention that is one, as it was when the run began.
inline constexpr const char* kAttentionFile = "attention.pt";    // a TorchScript module's file
inline constexpr const char* kAttentionSource = "attention.py";  // or a Python class's
inline constexpr const char* kAttentionImports = "attention_imports";  // modules beside that

/// Whether the folder holds a run that can be continued, or is finished.
bool has_begun(const std::filesystem::path& run);

/// The file of the best checkpoint that a run's last one names, which may be the next best still;
/// there may be none. Throws Error where the last one, or that, is not whole.
std::filesystem::path best_checkpoint(const std::filesystem::path& run);

/// What becomes of a run that the folder holds: an error, continued, or removed first.
enum class Resume { no, yes, over };
enum class Access { read, write };

/// What decides a run's numbers, and so what a checkpoint belongs to: the configuration and the
/// data's fingerprint.
json run_identity(const Config& config, const std::string& fingerprint);

/// config.json, metrics.jsonl, checkpoints, predictions and result.json of one run.
class RunFolder {
 public:
  /// Opens the folder for the run of that identity; to write, makes and locks it. Throws Error
  /// where it is in use or holds another run, or any run without Resume::yes. A run that never
  /// reached a checkpoint is begun anew; one that has lost its last checkpoint is an error. With
  /// Resume::over the folder is as one without a run, and clear() makes it so.
  RunFolder(std::filesystem::path path, json identity, Resume resume, Access access);
  /// Removes a folder that it made and where no run has begun.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const json& identity() const { return identity_; }
  std::string text() const { return path_.string(); }
  /// Removes what a run that begins anew replaces: what the folder holds of a run, and of that
  /// before it unless the identity has `pretraining`; of a run that goes on, how it ended before.
  /// Other files stay.
  void clear();
  /// True where its result is ok.
  bool is_finished() const;
  /// Whether begin() removes a run that the folder holds.
  bool begins_anew() const { return anew_; }

  /// Clears the folder, writes config.json, and metrics.jsonl goes on from `at`; event files too,
  /// where `events` is a folder for them.
  void begin(const json& config, const TrainState& at, const std::filesystem::path& events);
  /// Keeps the file that the attention's options name by `file` and `sha256`, with what it imports
  /// from beside it; nothing where they do not.
  void keep_file(const json& attention_options) const;
  /// A line of metrics.jsonl, at once.
  void log(const LogLine& line);

  void save(const char* checkpoint, const TrainState& at, Model& model,
            const torch::optim::AdamW* optimizer, torch::Device device) const;
  /// Puts the next best checkpoint in the place of the best.
  void keep_next_best() const;
  /// Nothing where there is no such checkpoint yet.
  std::optional<TrainState> load(const char* checkpoint, Model& model,
                                 torch::optim::AdamW* optimizer, torch::Device device) const;
  /// Throws Error where the best checkpoint of a run at `at` is not there, not whole or another
  /// one, in the process that writes.
  void check_best(const TrainState& at) const;
  /// The best checkpoint, which is of step `step`; throws Error where there is no such.
  void load_best(Model& model, torch::Device device, int64_t step) const;

  /// result.json, with what the log says of the majority, and the predictions where there are any.
  void write_result(Result result, const std::optional<Evaluation>& tested) const;

 private:
  void check_run(Resume resume);
  void check_remains(Resume resume);
  void settle_next_best() const;
  void check_step(const std::optional<int64_t>& found, int64_t step) const;
  void note_learning(Result& result) const;
  void remove_outcome() const;
  void remove_run() const;
  void remove_run_before() const;

  std::filesystem::path path_;
  json identity_;
  bool made_ = false;                     // by this object
  bool anew_ = false;                     // what the folder holds of a run counts for nothing,
  bool anew_before_ = false;              // nor does what it holds of the run before that
  std::optional<host::FolderLock> lock_;  // of the writer
  std::optional<AppendFile> metrics_, events_;
};

/// The folder of --tensorboard; throws Error where it cannot be made.
void make_event_folder(const std::filesystem::path& folder);

/// What config.json says of how and where a run is trained, beside its configuration: its numbers
/// depend on it to the bit.
struct RunSetting {
  std::string device;
  std::optional<int64_t> threads;    // of each process
  std::optional<int64_t> processes;  // that train together
  std::string engine;                // what carries their sums; "" = one process
  json software = json::object();    // name -> version; of runs from before it was kept: empty
  std::optional<ContractRecord> contract;  // what the attention was found to be at the start
};
json make_run_setting(const RunSetting& setting);
/// That of the run in a folder; empty where its config.json does not say, or there is none.
RunSetting read_run_setting(const std::filesystem::path& run);

/// Reads a result.json; throws Error that names the file.
Result read_result(const std::filesystem::path& path);

}  // namespace lra
