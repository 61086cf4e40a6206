// result.json (schema lra.result/1): the result of a training run. A number that was not measured
// is absent, never 0; JSON null counts as absent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/records/attention_record.h"
#include "results/records/contract_record.h"
#include "results/records/machine.h"
#include "results/records/predictions.h"
#include "results/records/run_log.h"
#include "results/records/status.h"
#include "results/statistics/interval.h"

namespace lra {

inline constexpr const char* kResultSchema = "lra.result/1";
inline constexpr const char* kNotTested = "not tested";

struct LengthAccuracy {
  int64_t from = 0, to = 0;  // tokens, both included
  double accuracy = 0;       // fraction
  int64_t count = 0;         // examples
};

/// Accuracy over one split, every example counted once.
struct Accuracy {
  double accuracy = 0;  // fraction 0..1, equal to correct / count
  int64_t correct = 0;
  int64_t count = 0;     // examples evaluated, at least 1
  stats::Interval ci95;  // Wilson interval of the fraction; make_result and parse_result compute it
                         // where it is absent
  // Where an example is a labelled position: the samples that they are of. The interval is then
  // that of clusters (stats::clustered_interval).
  std::optional<int64_t> samples;
  std::vector<LengthAccuracy> by_length;

  /// Of how many observations that are independent it is.
  int64_t independent() const { return samples.value_or(count); }
};

struct TrainingCost {
  std::optional<double> seconds;  // wall clock of the training loop
  std::optional<double> steps_per_second;
  std::optional<double> tokens_per_second;  // padded positions count
  // Highest sum of live tensor bytes, 2^20 bytes, of training steps (older records lack the
  // second: in them it is of both), and of evaluations on dev.
  // Of neither is the training set, which lies on a GPU where there is room (GPUs' records of
  // before do not tell it, and hold it).
  std::optional<double> peak_memory_mib, evaluation_peak_memory_mib, data_memory_mib;
  // Part of its threads' time for which they were ready and others ran, 0 to 1; on a CPU.
  std::optional<double> others;
  /// Whether its speeds say as much of what else ran on the machine.
  bool noisy() const { return others.value_or(0) > 0.05; }
  /// Of all of it.
  std::optional<double> most_memory_mib() const {
    return std::max(peak_memory_mib, evaluation_peak_memory_mib);  // none is less than any
  }
  std::optional<int64_t> threads;  // of each process; older records lack it
  // Processes that trained together: the speeds are those of all of them, the peak is that of the
  // first. Absent in a file: 1.
  int64_t processes = 1;
  std::string engine;  // what carried their sums, "mpi" or "nccl"; "" = one process
  // How steps were launched on a GPU: "graph", or "eager (why)"; "" = on a CPU, where nothing else
  // was asked for.
  std::string execution;
  // Runs at a time that its runner had on its GPU, this one among them: the speeds are of a share
  // of it. Absent in a file: 1, or not known.
  int64_t sharing = 1;
  // The step where the run's machine, or what else decides its costs, took over: all but `seconds`
  // are of the steps after it. Absent in a file: 0.
  int64_t measured_from = 0;
};

struct DataRecord {
  std::string source;                  // "generated", or the path given and what it was
  bool synthetic = false;              // stand-in data: every table made with it says so
  std::string fingerprint;             // SHA-256 over the files' hashes
  std::optional<double> majority;      // fraction of the test split's most frequent label
  std::optional<double> dev_majority;  // of the dev split's; older records lack it
  // The fractions of those labels that are the most frequent one of their sample, where samples
  // have several: more than who guesses among a sample's own answers gets.
  std::optional<double> sample_majority, dev_sample_majority;
  std::string split;                // how train, dev and test were divided; "" = not said
  std::vector<std::string> notes;   // what to know of the data
  json options = json::object();    // of its making: seed, counts, lengths; older records
                                    // lack it
  std::vector<std::string> unlike;  // how it differs from the data that published numbers are of

  /// The higher of dev's two: what an accuracy of dev has to lie above to say something.
  std::optional<double> dev_baseline() const;

  /// "CIFAR-10 (JPEG)": the name of images that are not the public ones, whose published numbers
  /// are of others; "" of all other data.
  std::string variant() const;
  /// "synthetic stand-in data", or variant(): what is said wherever a number of them is shown.
  std::string kind() const;
  /// The same, and "real" of all other data: for lists of what data are.
  std::string kind_or_real() const;
};

/// The budget of the suite that a run is a cell of.
struct RunBudget {
  std::string name;   // "quick"; "" = no suite's
  std::string tasks;  // its entries for all tasks, as JSON: what makes it that budget
  std::map<std::string, std::map<std::string, json>> set;  // task -> dotted key -> value
  // What the suite set over it: dotted key -> value, as JSON; kCut -> the fraction of the steps.
  std::map<std::string, std::string> over;

  static constexpr const char* kCut = "(cut)";

  bool known() const { return !name.empty(); }
};

/// Parameters that an optimizer trained alike.
struct ParameterGroupRecord {
  std::string parameters;  // the patterns of their names; "rest": of what no pattern matches
  double lr = 0;           // at the schedule's factor of 1
  double weight_decay = 0;
  int64_t count = 0;
};

/// The weights that a run started from: those of another, all but its head.
struct PretrainingRecord {
  std::string path;       // as it was given
  std::string sha256;     // of the checkpoint's tensors
  std::string objective;  // "masked"; "classify" of a run of the task itself
  int64_t step = 0;       // of the checkpoint
  int64_t steps = 0;      // that its run had done
  int64_t samples = 0;    // in these
  double seconds = 0;     // of training, evaluations included
  // Names of parameters and buffers: those taken, those of the origin that were not, and those of
  // the run that started anew.
  std::vector<std::string> taken, left, fresh;
  // Of both runs; set in a result alone.
  std::optional<int64_t> total_steps, total_samples;
  std::optional<double> total_seconds;
};

/// result.json
struct Result {
  std::string task;  // "listops"
  AttentionRecord attention;
  std::optional<ContractRecord> contract;  // of an attention of the user's own
  std::string protocol;                    // "lra-strict"
  // Of the protocol; older records lack it, and those of recall had this one.
  std::string regime = "2021";
  uint64_t seed = 0;  // of initialisation, order, dropout, projections
  Status status = Status::ok;
  std::string reason;            // one line, where the status is not ok
  std::string metric;            // what test and dev are the accuracy of; "" = the task's labels
  std::optional<Accuracy> test;  // required where the status is ok, unless it was not to be tested
  std::optional<Accuracy> dev;   // of the best checkpoint
  std::optional<int64_t> best_step;
  std::optional<int64_t> steps;  // optimiser steps done
  // left_majority_at() of its log; with data.dev_majority, nothing says that it never did.
  std::optional<int64_t> left_majority_at;
  std::optional<int64_t> parameters;
  std::vector<ParameterGroupRecord> parameter_groups;  // empty where all are trained alike
  std::optional<PretrainingRecord> pretrained;
  TrainingCost training;
  DataRecord data;  // required where the status is ok
  Machine machine;
  json software = json::object();  // name -> version
  json config = json::object();    // all effective values; config.overridden: the keys that differ
                                   // from the protocol's
  std::string path;                // where it was read from; not written
  // What find_records read beside it; not written either. Null, or empty, where there is none.
  std::shared_ptr<const Predictions> predictions;
  std::shared_ptr<const std::vector<LogLine>> log;
  RunBudget budget;

  /// The value of a dotted key of `config`; null where it has none.
  const json* setting(const std::string& key) const;
  /// The overridden keys with the values they took, sorted: {"training.steps=1000"}.
  std::vector<std::string> overridden() const;
  /// "float32", "bfloat16", or "" where the configuration does not say.
  std::string dtype() const;
  /// The status, or kNotTested of an ok run without a test.
  std::string ending() const;
  /// Whether it was the second of two runs of one configuration.
  bool has_pretraining() const;
  /// Whether it was evaluated and never began to learn (left_majority_at).
  bool never_left_majority() const;
  /// Of training and its evaluations, the first of two such runs included.
  std::optional<double> seconds() const;
};

/// Numbers that are not finite become null.
json make_result(const Result& result);
/// Reads a record; throws std::runtime_error that names the field, what was expected and what was
/// found. Unknown keys are passed over: later minor additions do not make old readers fail.
Result parse_result(const json& record);

/// The same of an accuracy; `where` names the place in messages.
json make_accuracy(const Accuracy& accuracy);
Accuracy parse_accuracy(const json& value, const std::string& where);

/// The same of what config.json and result.json say under "pretrained".
json make_pretraining_record(const PretrainingRecord& record);
PretrainingRecord parse_pretraining_record(const json& value);

/// machine_text of what a run was trained on, with what else decides its costs and not its
/// accuracy: ", 2 threads", ", 4 processes (mpi)" where there were several, ", graph steps" on a
/// GPU, ", kernels avx2" on a CPU, or ", kernels reference" and ", batch in parts of 8" where the
/// configuration says so. Costs compare where it is equal and threads are known; ", threads not
/// known" where they are not.
std::string machine_setting_text(const Result& result);

/// "torch 2.11.0 and 2.4.0, this program's commits ...": in what the runs' programs differ that may
/// make one faster; "" where in nothing.
std::string mixed_programs(std::span<const Result* const> runs);

/// Whether the peaks of memory of some of the runs hold evaluations, as in records before those had
/// a peak of their own, and of others not.
bool mixed_peaks(std::span<const Result* const> runs);

/// False of an older record on a CPU: its speed compares with none.
bool knows_threads(const Result& result);

}  // namespace lra
