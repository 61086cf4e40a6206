// Tasks × attentions × seeds: what a suite is, and its file OUT/suite.json, from which any number
// of runners, the status and a cluster's jobs read the same cells. Every cell is a run folder.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/suite/data.h"
#include "harness/suite/suite_file.h"
#include "harness/training/train.h"
#include "lra/config/budget.h"

namespace lra::suite {

/// What decides a suite's results.
struct SuiteRequest {
  std::vector<std::string> tasks;
  std::vector<AttentionSpec> attentions;
  std::vector<uint64_t> seeds;
  std::string protocol = "lra-strict";
  Budget budget;
  std::vector<std::string> sets;  // over the budget's own
  DataSources data;               // `folder` is OUT/data whatever stands here
  std::filesystem::path out;
  std::string device = "cpu";  // "cpu" or "cuda": the runner chooses which GPU
  std::string dtype = "float32";
  int64_t threads = 0;   // of each cell: float sums depend on it, so all runners use the same
  double max_hours = 0;  // 0 = no limit
};

struct SuiteCell {
  Config config;
  std::vector<std::string> sets;
  std::filesystem::path run;  // the folder
  std::string point;          // of a grid, "optimizer.lr=0.001"; "" = of none

  /// "listops nystrom[num_landmarks=32] seed 0", and the point behind it
  std::string label() const;
};

struct Suite {
  SuiteRequest request;
  double fraction = 1;  // of the steps, as max_hours left it
  std::vector<SuiteCell> cells;
};

inline constexpr const char* kProfileFile = "profile.jsonl";
/// Training steps that a plan measured to predict the cells' times.
inline constexpr const char* kProbeFile = "probe.jsonl";

/// A text as the name of a folder: letters, digits and what is safe beside them stay.
std::string folder_name(const std::string& text);

/// The cells of a request with `fraction` of their steps; reads and writes nothing but the
/// protocol. Throws UsageError on wrong names, options and values, and where two cells would share
/// a folder.
Suite plan_suite(const SuiteRequest& request, double fraction = 1);

/// Throws UsageError with this advice where two cells would share a folder.
void check_folders(const Suite& suite, const std::string& advice);

/// The overrides that leave a run `fraction` of its steps: training.steps, schedule.warmup and, of
/// kind step, schedule.decay_every, each times the fraction, and the same of its pretraining. The
/// evaluations stay as many steps apart as they were, so that all of a run's time shrinks alike.
/// Throws UsageError where fewer than 2 steps would be left.
std::vector<std::string> cut_sets(const Config& config, double fraction);

json suite_json(const Suite& suite);

/// The suite that a folder holds; throws Error where there is none, where its file is broken, or
/// where this program would make other cells of it.
Suite load_suite(const std::filesystem::path& out);

/// The planned suite as the folder that holds it already has it: with its cells' threads, its cut,
/// and its sources where none are given now. Throws Error where the folder holds another suite.
Suite join_suite(const Suite& planned);

/// Makes OUT and its suite.json, or joins the suite that is there. `hours` is asked for the
/// predicted hours of the whole where a new suite has a max_hours. Throws Error where OUT holds a
/// suite and `resume` is no, or another suite; UsageError where the caller insists on
/// `threads_given` threads a cell (0 = does not) and the suite has others.
Suite open_suite(const Suite& planned, Resume resume, int64_t threads_given,
                 const std::function<double(const Suite&)>& hours);

/// Where a suite in `out` keeps the data that it makes.
std::filesystem::path suite_data_folder(const std::filesystem::path& out);

/// Where each task's data are or will be, by task.
std::vector<TaskData> suite_data(const Suite& suite);

}  // namespace lra::suite
