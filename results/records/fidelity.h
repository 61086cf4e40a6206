// A line of a fidelity experiment (schema lra.fidelity/1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/records/attention_record.h"
#include "results/records/machine.h"
#include "results/records/profile.h"
#include "results/records/status.h"
#include "results/statistics/interval.h"

namespace lra {

inline constexpr const char* kFidelitySchema = "lra.fidelity/1";

/// One quantity over the trials of a fidelity experiment.
struct TrialEstimate {
  double mean = 0;
  std::optional<double> sd;  // with divisor n - 1; absent with one sample, as the interval
  std::optional<stats::Interval> ci95;  // Student's, of the mean
  double median = 0, worst = 0;         // worst: the largest
  std::vector<double> samples;          // at least one
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
  std::string data_source;  // as the run's record has it; older records lack it
  std::string fingerprint;  // of the data
  std::string identity;     // SHA-256 over the run's whole configuration

  bool from_run() const;
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
  Status status = Status::ok;
  std::string reason;
  std::vector<std::pair<std::string, TrialEstimate>>
      measures;                         // by kMeasures' names; some where ok
  std::optional<ProfileTime> time;      // "time_ms"
  std::optional<ProfileMemory> memory;  // "memory_mib"
  std::optional<double> flops;          // of one forward
  std::optional<int64_t> threads;
  Machine machine;
  json software = json::object();
  std::string path;  // where it was read from; not written

  /// The estimate of that name, or null.
  const TrialEstimate* find(std::string_view measure) const;
  /// What the cell is apart from what came out: equal for two measurements of the same.
  std::string identity() const;
};

/// The estimate of at least one sample.
TrialEstimate estimate_of(std::vector<double> samples);

/// Numbers that are not finite become null.
json make_fidelity(const Fidelity& fidelity);
/// Reads a record; throws std::runtime_error that names the field, what was expected and what was
/// found. Unknown keys are passed over: later minor additions do not make old readers fail.
Fidelity parse_fidelity(const json& record);

}  // namespace lra
