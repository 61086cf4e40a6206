// What a suite will cost, predicted from what was measured: `lra suite plan` and --max-hours.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/suite.h"
#include "results/print/table.h"
#include "results/records/status.h"

namespace lra {

struct Prediction {
  Status status = Status::pending;   // or what the cell ended as
  std::optional<double> seconds;     // of the whole cell; nothing where nothing is known
  std::optional<double> left;        // of them, still to come
  std::optional<double> memory_mib;  // tensors at most
  std::string from;                  // what it was predicted from: "its own run", "a probe", ...
};

struct PredictOptions {
  // Folders and files of records, beside OUT itself: result.json and training steps of
  // lra profile --scope model --mode training. Those of another machine, or of other sizes, are
  // passed over.
  std::vector<std::filesystem::path> records;
  bool probe = false;  // measure a few training steps of what is not known, into OUT/probe.jsonl
};

/// One a cell, in their order.
std::vector<Prediction> predict(const Suite& suite, const PredictOptions& options);

/// Seconds until the last of `pending` seconds of work is done, taken in their order by `jobs`
/// workers.
double makespan(const std::vector<double>& pending, int64_t jobs);

/// The plan as a table with totals below it, and as JSON.
Table plan_table(const Suite& suite, const std::vector<Prediction>& predictions, int64_t jobs);
json plan_json(const Suite& suite, const std::vector<Prediction>& predictions, int64_t jobs);

/// The hours that all cells take by themselves with `jobs` at a time, whatever has been done of
/// them; throws Error that names a cell of which nothing is known.
double predicted_hours(const Suite& suite, const std::vector<Prediction>& predictions,
                       int64_t jobs);

inline constexpr const char* kProbeFile = "probe.jsonl";

}  // namespace lra
