// OUT/tune.json (schema lra.tune/1): the one writer and reader.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "harness/tune/grid.h"
#include "results/records/file_names.h"
#include "results/records/status.h"
#include "results/statistics/interval.h"

namespace lra::tune {

inline constexpr const char* kTuneSchema = "lra.tune/1";

/// A run, as far as it is known.
struct TunedCell {
  std::string attention;
  Point point;
  uint64_t seed = 0;
  std::string run;  // the folder below OUT
  Status status = Status::pending;
  std::string reason;                       // where the status is not ok
  std::optional<double> dev;                // accuracy of the best checkpoint, a fraction
  std::optional<stats::Interval> ci95;      // of that
  std::optional<int64_t> examples;          // that are independent, behind it
  std::optional<int64_t> best_step;         // of that checkpoint
  std::optional<int64_t> left_majority_at;  // as in the run's record
  bool learning_unknown = false;            // whether that says nothing, as the run's log is lost
  std::optional<double> seconds;            // of training, evaluations included
};

/// What was chosen for an attention.
struct ChosenPoint {
  std::string attention;
  Point point;
  double dev = 0;                 // mean accuracy over the seeds, a fraction
  stats::Interval ci95;           // of that
  int64_t learned = 0;            // seeds that left the majority behind
  bool learning_unknown = false;  // whether others may have
  int64_t seeds = 0;
};

struct AttentionHours {
  std::string attention;
  double hours = 0;
};

struct TuneFile {
  std::string task;
  std::vector<std::string> attentions;
  std::vector<Point> points;
  std::vector<uint64_t> seeds;
  std::string protocol;           // as given
  std::vector<std::string> sets;  // as given
  std::string data;               // the folder
  std::string dtype, device;
  int64_t threads = 0;  // of each cell

  std::string fingerprint;           // of the data
  std::string data_source;           // as records of runs have it; older files lack it
  bool synthetic = false;            // likewise
  json recipes = json::object();     // attention -> what a run at the first point and seed is
  json software = json::object();    // name -> version
  std::vector<TunedCell> cells;      // by attention, point, seed
  std::vector<ChosenPoint> chosen;   // an attention each that has a point to choose
  double hours = 0;                  // of training, of all cells that ended
  std::vector<AttentionHours> cost;  // the same of each attention
};

json make_tune_file(const TuneFile& file);
/// Throws Error that names the file, the field, what was expected and what was found.
TuneFile read_tune_file(const std::filesystem::path& path);

}  // namespace lra::tune
