#include "harness/training/run_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/files.h"
#include "harness/host/progress.h"
#include "harness/training/resume.h"
#include "results/records/event_file.h"
#include "results/records/record_fields.h"

namespace lra {

namespace fs = std::filesystem;

namespace {

constexpr auto setting_fields = [](auto& f, auto& setting) {
  f("device", setting.device, Presence::optional);
  f("threads", setting.threads);
  f("processes", setting.processes);
  f("engine", setting.engine, Presence::sparse);
  f("software", setting.software, Presence::sparse);
  f.part("contract", setting.contract, make_contract_record, parse_contract_record);
};

bool has_result(const fs::path& run) {
  const fs::path result = run / kResultFile;
  if (!fs::exists(result)) return false;
  try {
    return read_result(result).status == Status::ok;
  } catch (const Error& error) {
    throw Error(fmt::format("{}; remove it, and a run that goes on makes it anew", error.what()));
  }
}

// A run that reads the file that its folder keeps has the record of one that reads its own.
void name_own_file(Result& result) {
  const json none = json::object();
  const json options = result.config.value(json::json_pointer("/attention/options"), none);
  if (!options.contains("sha256") || !result.attention.options.contains("file")) return;
  const AttentionSpec named{
      .name = result.attention.name,
      .options = result.config.value(json::json_pointer("/attention/given"), none)};
  result.attention.label = named.text();
  result.attention.options["file"] = options.at("file");
}

EvaluationSteps evaluation_steps(const json& config) {
  const auto of = [&](const char* key) {
    return config.value(json::json_pointer("/training") / key, int64_t{0});
  };
  return {.every = of("evaluate_every"), .steps = of("steps")};
}

json saved_config(const fs::path& path) {
  constexpr const char* kAdvice =
      "; put it back from a copy, choose another --run folder, or, of a run without a checkpoint, "
      "remove it";
  json saved = read_json_object(path, "the configuration of a run", kAdvice);
  if (saved.contains("identity")) return saved;
  throw Error(path.string() + " is not the configuration of a run" + kAdvice);
}

// Of a folder without a run: its lock, and the folder where nothing else is in it.
void remove_empty(const fs::path& run) {
  std::error_code ignored;
  fs::remove(run / host::FolderLock::kName, ignored);
  fs::remove(run, ignored);  // only where it is empty
}

}  // namespace

bool has_begun(const fs::path& run) { return fs::exists(run / kLastCheckpoint) || has_result(run); }

fs::path best_checkpoint(const fs::path& run) {
  const fs::path best = run / kBestCheckpoint, next = run / kNextBestCheckpoint,
                 last = run / kLastCheckpoint;
  if (!fs::exists(next) || !fs::exists(last)) return best;
  return read_checkpoint(next).at.step == read_checkpoint(last).at.best_step ? next : best;
}

json run_identity(const Config& config, const std::string& fingerprint) {
  json identity = config_identity(config.to_json());
  identity["fingerprint"] = fingerprint;
  return identity;
}

RunFolder::RunFolder(fs::path path, json identity, Resume resume, Access access)
    : path_(std::move(path)), identity_(std::move(identity)) {
  if (access == Access::write) {
    made_ = !fs::exists(path_);
    const std::string trouble = make_folders(path_);
    if (!trouble.empty()) throw Error("cannot create the run folder " + text() + ": " + trouble);
    lock_.emplace(path_);
  }
  check_run(resume);
  if (lock_ && !anew_) settle_next_best();
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (made_ && !fs::exists(path_ / kConfigFile, ignored)) remove_empty(path_);
}

// A folder with a run in it is continued only when asked, and only by the same configuration. One
// whose run never reached a checkpoint has nothing to continue and nothing to lose.
void RunFolder::check_run(Resume resume) {
  const fs::path path = path_ / kConfigFile;
  anew_before_ = resume == Resume::over;
  if (!fs::exists(path)) return check_remains(resume);
  const std::string different = config_differences(saved_config(path)["identity"], identity_);
  const bool best_alone = !has_begun(path_) && fs::exists(path_ / kBestCheckpoint),
             begun = resume != Resume::over && (has_begun(path_) || best_alone);
  anew_ = resume == Resume::over || (!begun && (resume == Resume::no || !different.empty()));
  if (anew_) return;
  if (resume == Resume::no && !best_alone) {
    throw Error(text() +
                " holds a run already; continue it with --resume, choose another --run folder, or "
                "remove it with --overwrite");
  }
  if (resume == Resume::yes && !different.empty()) {
    throw Error(
        fmt::format("{} holds a run of another configuration ({}); use the same options, another "
                    "--run folder, or --overwrite",
                    text(), different));
  }
  // It has lost its last checkpoint, and would lose the best by beginning anew.
  if (best_alone) {
    throw Error(fmt::format(
        "{} holds a run whose {} is missing; put it back, choose another --run folder, or remove "
        "the run with --overwrite",
        text(), kLastCheckpoint));
  }
}

// Of a run that was killed between the two checkpoints of an evaluation, or just behind them.
void RunFolder::settle_next_best() const {
  const fs::path next = path_ / kNextBestCheckpoint;
  if (!fs::exists(next)) return;
  if (best_checkpoint(path_) == next) {
    keep_next_best();
  } else {
    fs::remove(next);
  }
}

void RunFolder::keep_next_best() const {
  fs::rename(path_ / kNextBestCheckpoint, path_ / kBestCheckpoint);
}

// Of a folder without config.json: a run that ended or has a checkpoint may be another one.
void RunFolder::check_remains(Resume resume) {
  if (!has_begun(path_) && !fs::exists(path_ / kBestCheckpoint)) return;
  anew_ = resume == Resume::over;
  if (anew_) return;
  throw Error(fmt::format(
      "{} holds a run whose {} is missing; put it back from a copy, choose another --run "
      "folder, or remove the run with --overwrite",
      text(), kConfigFile));
}

void RunFolder::clear() {
  if (anew_before_) remove_run_before();
  // How an attempt before ended is not how this one does.
  if (!is_finished()) remove_outcome();
  if (anew_) remove_run();
  anew_ = anew_before_ = false;
}

void RunFolder::remove_outcome() const {
  for (const char* name : {kResultFile, kPredictionsFile}) fs::remove(path_ / name);
}

void RunFolder::remove_run() const {
  for (const char* name :
       {kBestCheckpoint, kNextBestCheckpoint, kLastCheckpoint, kMetricsFile, kAttentionFile,
        kAttentionSource, kConfigFile})  // config.json says what it is
    fs::remove(path_ / name);
  remove_tree(path_ / kAttentionImports);
}

// The run that an overwritten one had before it goes too; of a run with pretraining of its own that
// folder holds the new one by now.
void RunFolder::remove_run_before() const {
  const fs::path before = path_ / kPretrainingFolder;
  if (identity_.contains("pretraining") || !fs::exists(before / kConfigFile)) return;
  { RunFolder(before, json::object(), Resume::over, Access::write).clear(); }
  remove_empty(before);
}

bool RunFolder::is_finished() const { return !anew_ && has_result(path_); }

void make_event_folder(const fs::path& folder) {
  const std::string trouble = make_folders(folder);
  if (!trouble.empty())
    throw Error(
        fmt::format("--tensorboard {}: cannot make the folder: {}", folder.string(), trouble));
}

namespace {

// TensorBoard takes the files of a folder for one run's, and forgets what stands in those before.
void warn_of_events(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (!entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    host::say(fmt::format(
        "WARNING: --tensorboard {} holds events already, which TensorBoard will not show beside "
        "those of this run; give each run a folder of its own, as {}",
        folder.string(), (folder / "NAME").string()));
    return;
  }
}

}  // namespace

// Events have a file of their own for each start, which TensorBoard reads in the order of their
// names; its first event tells it to forget what it read before.
void RunFolder::begin(const json& config, const TrainState& at, const fs::path& events) {
  const double now = time_of_day();
  if (!events.empty()) {  // first: else the run before would be lost for it
    make_event_folder(events);
    if (at.step == 0) warn_of_events(events);
    events_.emplace(events / event_file_name(now));
  }
  clear();
  write_json(path_ / kConfigFile, config, Links::replace);
  const fs::path log = path_ / kMetricsFile;
  const std::string had = fs::exists(log) ? read_file(log) : "";
  const std::string kept = cut_run_log(had, at.step, at.evaluation_pending);
  write_file(log, kept, Links::replace);
  metrics_.emplace(log);
  std::string unreadable;  // what cut_run_log() keeps can be read
  const std::vector<LogLine> lines = parse_run_log(kept, unreadable);
  if (const auto lost = lost_evaluation(lines, evaluation_steps(config),
                                        at.step - (at.evaluation_pending ? 1 : 0))) {
    host::say(fmt::format(
        "{} has lost lines, that of the evaluation at step {} first: stop, put it back from a copy "
        "and resume, or the record will not say when the run began to learn",
        log.string(), *lost));
  }
  if (events_) events_->append(event_file(lines, now));
}

void RunFolder::keep_file(const json& attention_options) const {
  keep_attention(path_, attention_options);
}

void RunFolder::log(const LogLine& line) {
  metrics_->append(make_log_line(line));
  if (events_) events_->append(event_record(line));
}

void RunFolder::save(const char* checkpoint, const TrainState& at, Model& model,
                     const torch::optim::AdamW* optimizer, torch::Device device) const {
  if (metrics_) metrics_->sync();  // a checkpoint's lines are there with it
  save_checkpoint(path_ / checkpoint, identity_, at, model, optimizer, device);
}

std::optional<TrainState> RunFolder::load(const char* checkpoint, Model& model,
                                          torch::optim::AdamW* optimizer,
                                          torch::Device device) const {
  if (anew_ || !fs::exists(path_ / checkpoint)) return std::nullopt;
  return load_checkpoint(path_ / checkpoint, identity_, model, optimizer, device);
}

void RunFolder::check_best(const TrainState& at) const {
  if (anew_ || !lock_) return;  // another process may be about to put it in its place
  const fs::path best = path_ / kBestCheckpoint;
  std::optional<int64_t> found;
  if (fs::exists(best)) found = read_checkpoint(best).at.step;
  // Older runs had no next best: of one that was killed, the evaluation is made again.
  if (found <= at.step) check_step(found, at.best_step);
}

void RunFolder::load_best(Model& model, torch::Device device, int64_t step) const {
  const auto best = load(kBestCheckpoint, model, nullptr, device);
  check_step(best ? std::optional(best->step) : std::nullopt, step);
}

void RunFolder::check_step(const std::optional<int64_t>& found, int64_t step) const {
  if (found == step) return;
  const std::string what = found ? fmt::format("holds the {} of step {}, not of step {}, the best",
                                               kBestCheckpoint, *found, step)
                                 : fmt::format("has no {}", kBestCheckpoint);
  throw Error(fmt::format("{} {}: put it back, or train anew with --overwrite", text(), what));
}

// Where lines are lost, nobody knows: a record without the majority says nothing of it.
void RunFolder::note_learning(Result& result) const {
  if (!result.dev || !result.data.dev_majority) return;
  const fs::path file = path_ / kMetricsFile;
  std::string reason;
  const std::vector<LogLine> log = parse_run_log(fs::exists(file) ? read_file(file) : "", reason);
  // Of a run that failed, maybe in an evaluation, to the last one that did not.
  int64_t last = result.best_step.value_or(0);
  if (result.status == Status::ok) last = std::max(last, result.steps.value_or(0));
  for (const LogLine& line : log) {
    if (line.split == LogSplit::dev) last = std::max(last, line.step);
  }
  if (lost_evaluation(log, evaluation_steps(result.config), last)) {
    result.data.dev_majority.reset();
  } else {
    result.left_majority_at =
        left_majority_at(log, *result.data.dev_baseline(), result.dev->independent());
  }
}

void RunFolder::write_result(Result result, const std::optional<Evaluation>& tested) const {
  name_own_file(result);
  note_learning(result);
  // Labels that are tokens are too many to be written.
  if (tested && !tested->labels.empty())
    write_file(path_ / kPredictionsFile, tested->predictions_csv(), Links::replace);
  write_json(path_ / kResultFile, make_result(result), Links::replace);
}

json make_run_setting(const RunSetting& setting) { return write_record(setting, setting_fields); }

RunSetting read_run_setting(const fs::path& run) {
  try {
    return read_record<RunSetting>(read_json(run / kConfigFile), "", setting_fields);
  } catch (const std::exception&) {  // none, or not the file of a run
    return {};
  }
}

Result read_result(const fs::path& path) {
  try {
    return parse_result(read_json(path));
  } catch (const std::runtime_error& error) {
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;  // names the file already
    throw Error(path.string() + ": " + error.what());
  }
}

}  // namespace lra
