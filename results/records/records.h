// The records a run leaves, as structs: result.json (schema lra.result/1), a line of a profile
// (schema lra.profile/1) and a line of a fidelity experiment (schema lra.fidelity/1). This file is
// the one source of truth of these formats: what writes a
// record fills a struct and calls make_*, what reads one calls parse_*. A number that was not
// measured is absent, never 0; JSON null counts as absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/records/predictions.h"
#include "results/records/run_log.h"

namespace lra {

using json = nlohmann::ordered_json;

inline constexpr const char* kResultSchema = "lra.result/1";
inline constexpr const char* kProfileSchema = "lra.profile/1";
inline constexpr const char* kFidelitySchema = "lra.fidelity/1";

/// The words a status may be.
inline constexpr std::string_view kStatusWords[] = {
    "ok", "oom", "timeout", "crash", "diverged", "unsupported", "pending", "running"};

struct Interval {
  double low = 0;
  double high = 0;
};

struct AttentionRecord {
  std::string name;  // "nystrom"
  std::string
      label;  // as the user named it: "nystrom[num_landmarks=32]"; absent in a file: the name
  json options = json::object();  // every effective option
};

struct LengthAccuracy {
  int64_t from = 0, to = 0;  // tokens, both included
  double accuracy = 0;       // fraction
  int64_t count = 0;         // examples
};

/// Accuracy over one split, every example counted once.
struct Accuracy {
  double accuracy = 0;  // fraction 0..1, equal to correct / count
  int64_t correct = 0;
  int64_t count = 0;  // examples evaluated, at least 1
  Interval ci95;  // Wilson interval of the fraction; make_result and parse_result compute it where
                  // it is absent
  std::vector<LengthAccuracy> by_length;
};

struct TrainingCost {
  std::optional<double> seconds;  // wall clock of the training loop
  std::optional<double> steps_per_second;
  std::optional<double> tokens_per_second;  // padded positions count
  std::optional<double> peak_memory_mib;    // highest sum of live tensor bytes, 2^20 bytes
  std::optional<int64_t> threads;           // of each process; records of before lack it
  // Processes that trained together: the speeds are those of all of them, the peak is that of the
  // first. Absent in a file: 1.
  int64_t processes = 1;
  std::string engine;  // what carried their sums, "mpi" or "nccl"; "" = one process
};

struct DataRecord {
  std::string source;              // "generated", or the path given and what it was
  bool synthetic = false;          // stand-in data: every table made with it says so
  std::string fingerprint;         // SHA-256 over the files' hashes
  std::optional<double> majority;  // fraction of the test split's most frequent label
};

struct Machine {
  std::string processor;     // "Intel(R) Xeon(R) ..."
  int64_t cores = 0;         // logical; 0 = unknown
  int64_t usable_cores = 0;  // of these, by the process that ran; 0 = unknown: older records give
                             // these as `cores`
  double memory_gib = 0;     // 0 = unknown
  std::string gpu;           // "" = none

  /// The cores that the process could use.
  int64_t usable() const { return usable_cores > 0 ? usable_cores : cores; }
};

/// result.json
struct Result {
  std::string task;  // "listops"
  AttentionRecord attention;
  std::string protocol;          // "lra-strict"
  uint64_t seed = 0;             // of initialisation, order, dropout, projections
  std::string status = "ok";     // one of kStatusWords
  std::string reason;            // one line, where the status is not ok
  std::optional<Accuracy> test;  // required where the status is ok
  std::optional<Accuracy> dev;   // of the best checkpoint
  std::optional<int64_t> best_step;
  std::optional<int64_t> steps;  // optimiser steps done
  std::optional<int64_t> parameters;
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

  /// The overridden keys with the values they took, sorted: {"training.steps=1000"}.
  std::vector<std::string> overridden() const;
  /// "float32", "bfloat16", or "" where the configuration does not say.
  std::string dtype() const;
};

/// One process's share of a cell's samples, and what was seen of the machine meanwhile.
struct ProfilePass {
  int64_t samples = 0;                // how many of the cell's samples are its own, in their order
  int64_t warm_up = 0;                // calls before them
  std::optional<double> others;       // part of its processors' time that other work took, 0 to 1
  std::optional<double> mhz;          // of the processor, as the system says
  std::optional<Interval> reference;  // ms of a fixed chain of operations, before and after
  std::optional<double> device_ms;    // median by a GPU's own clock
  std::string noisy;                  // why it is; "" = quiet
};

struct ProfileTime {
  double median = 0;  // milliseconds, as all here
  std::optional<double> min, iqr;
  std::optional<Interval> ci95;     // of the median
  std::vector<double> samples;      // pass after pass
  std::vector<ProfilePass> passes;  // empty: all samples are of one process
};

struct ProfileMemory {
  double peak = 0;  // MiB of live tensors above the start, inputs and weights excluded
  std::optional<double> parameters;    // MiB of weights and buffers
  std::optional<double> analytic;      // MiB that the variant's own account says
  std::optional<double> optimizer;     // MiB of the optimizer's state
  std::optional<double> process_peak;  // MiB resident at most in the whole process (VmHWM)
  std::optional<double> reserved;      // MiB that LibTorch held of a GPU at most
  std::optional<double> device;        // MiB in use on that GPU, whoever by
};

/// What a machine reached in this program's own measurement, with the cells' threads and type.
struct Roofline {
  double gflops = 0;                // GFLOP/s of a large matrix product
  double gigabytes_per_second = 0;  // 10^9 bytes a second, read and written, of a large copy
};

/// One cell of a profile: one line of a JSONL file.
struct Profile {
  AttentionRecord attention;
  int64_t length = 0, batch = 0, heads = 0, head_dim = 0;  // N, B, H, d: at least 1
  std::string scope;                                       // core, module or model
  std::string mode;     // inference or training (forward and backward)
  std::string dtype;    // "float32"
  std::string device;   // "cpu", "cuda:0"
  std::string package;  // whose code ran, with its version; "" = this program's
  std::string status = "ok";
  std::string reason;
  std::optional<ProfileTime> time;      // "time_ms"; required where the status is ok
  std::optional<ProfileMemory> memory;  // "memory_mib"; required where the status is ok
  std::string noisy;                    // why the time is not to be trusted; "" = it is
  std::optional<double> flops;          // of one forward
  std::optional<double> least_bytes;    // that one forward must move: inputs, weights and output
  std::optional<Roofline> roofline;
  std::optional<int64_t> threads;
  std::string batch_policy;      // how the batch was chosen, "tokens=16384"; "" = it is fixed
  std::string protocol, task;    // of scope model; "" = absent
  json sets = json::array();     // of scope model: what differs from the protocol, "a.b=v"
  json method = json::object();  // how it was measured: limits, pinning, order
  Machine machine;
  json software = json::object();
  std::string path;  // where it was read from; not written
};

/// One quantity over the trials of a fidelity experiment.
struct Estimate {
  double mean = 0;
  std::optional<double> sd;      // with divisor n - 1; absent with one sample, as the interval
  std::optional<Interval> ci95;  // Student's, of the mean
  double median = 0, worst = 0;  // worst: the largest
  std::vector<double> samples;   // at least one
};

/// The quantities that fidelity experiments measure, as a file names them.
struct MeasureName {
  std::string_view name, title;
};
inline constexpr MeasureName kMeasures[] = {
    {"scores", "error of the raw scores, Frobenius norm"},
    {"matrix", "relative error of the attention matrix, Frobenius norm"},
    {"output", "relative error of the output, Frobenius norm"},
    {"inverse", "error of the inverse, Frobenius norm of AZ - I"},
    {"condition", "condition number of the landmarks' matrix A"},
};

/// What the queries, keys and values of a fidelity experiment were.
struct FidelityData {
  std::string source = "random gaussian";  // or "run": those of a trained model; then also:
  std::string task, attention, protocol;   // of the run, the attention as the user named it
  uint64_t seed = 0;                       // of the run
  int64_t step = 0;                        // of the checkpoint
  bool synthetic = false;
  std::string fingerprint;  // of the data
  std::string identity;     // SHA-256 over the run's whole configuration
};

/// One cell of a fidelity experiment: one line of a JSONL file.
struct Fidelity {
  int64_t experiment = 1;  // 1 raw scores, 2 attention matrix, 3 iterations, 4 all approximations
  AttentionRecord attention;  // the label leaves the budget out
  std::string budget;         // the option that is swept; "" = none
  int64_t budget_value = 0;
  int64_t length = 0, heads = 0, head_dim = 0;  // N, H, d: at least 1
  int64_t trials = 0;                           // at least 1
  uint64_t seed = 0;
  std::string dtype, device;
  FidelityData data;
  std::optional<int64_t> layer;  // of a run, from 0
  std::string status = "ok";
  std::string reason;
  std::vector<std::pair<std::string, Estimate>> measures;  // by kMeasures' names; some where ok
  std::optional<ProfileTime> time;                         // "time_ms"
  std::optional<ProfileMemory> memory;                     // "memory_mib"
  std::optional<double> flops;                             // of one forward
  std::optional<int64_t> threads;
  Machine machine;
  json software = json::object();
  std::string path;  // where it was read from; not written

  /// The estimate of that name, or null.
  const Estimate* find(std::string_view measure) const;
  /// What the cell is apart from what came out: equal for two measurements of the same.
  std::string identity() const;
};

/// The estimate of at least one sample.
Estimate estimate_of(std::vector<double> samples);

/// The JSON of a record. Numbers that are not finite become null.
json make_result(const Result& result);
json make_profile(const Profile& profile);
json make_fidelity(const Fidelity& fidelity);

/// Reads a record; throws std::runtime_error that names the field, what was expected and what was
/// found. Keys it does not know are passed over, so that a later minor addition does not make old
/// readers fail.
Result parse_result(const json& record);
Profile parse_profile(const json& record);
Fidelity parse_fidelity(const json& record);

/// The same of their parts; `where` names the place in messages.
json make_accuracy(const Accuracy& accuracy);
Accuracy parse_accuracy(const json& value, const std::string& where);
json make_machine(const Machine& machine);
Machine parse_machine(const json& machine);

/// Any value as one line of ASCII, whatever bytes it holds; and the same for a message: at most 60
/// letters, "an array", "an object".
std::string json_line(const json& value);
std::string abbreviated(const json& value);

/// "Intel Xeon, 2 cores, 8 GiB", or the GPU's name before it; "2 of 64 cores" where fewer could be
/// used.
std::string machine_text(const Machine& machine);
/// The same of what a run was trained on, with what else decides its costs and not its accuracy:
/// ", 2 threads", ", 4 processes (mpi)" where there were several, ", kernels reference" and ",
/// batch in parts of 8" where the configuration says so. Costs compare where it is equal.
std::string machine_setting_text(const Result& result);

/// A file that could not be used, or not wholly.
struct BadFile {
  std::string path;
  std::string reason;
};

struct Records {
  std::vector<Result> results;
  std::vector<Profile> profiles;
  std::vector<Fidelity> fidelity;
  std::vector<BadFile> bad;
};

/// Reads every path: a folder is walked (result.json, with predictions-test.csv and metrics.jsonl
/// beside it, and every other *.jsonl), a .jsonl file is read line by line, any other file as one
/// JSON record. Files are taken in sorted order, each once. A file that is missing, truncated, of
/// an unknown schema or short of a field goes to `bad` and the rest is still read.
Records find_records(const std::vector<std::filesystem::path>& paths);

}  // namespace lra
