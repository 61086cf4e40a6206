// Tasks × attentions × seeds: what a suite is, and its cells, each of which is a run folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/suite/data.h"
#include "harness/training/train.h"
#include "lra/config/budget.h"
#include "lra/config/protocol.h"

namespace lra::suite {

/// An attention of a suite whose file is no more what it was when the suite was made.
struct ChangedFile {
  std::string attention;       // as named
  std::string what;            // "my.py has changed"
  std::filesystem::path kept;  // as it was, in the suite's folder; empty = nothing there keeps it

  /// "my.py has changed; python:my.py:Softplus goes on with the file as it was, ..."
  std::string text() const;
};

/// What decides a suite's results.
struct SuiteRequest {
  std::vector<std::string> tasks;
  std::vector<AttentionSpec> attentions;
  std::string folder;  // that files of attentions are named from; "" = the current one
  std::vector<uint64_t> seeds;
  std::string protocol = kDefaultProtocol;
  Budget budget;
  std::vector<std::string> sets;  // over the budget's own
  DataSources data;               // `folder` is OUT/data whatever stands here
  std::filesystem::path out;
  std::string device = "cpu";  // "cpu" or "cuda": the runner chooses which GPU
  std::string dtype = "float32";
  int64_t threads = 0;   // of each cell: float sums depend on it, so all runners use the same
  double max_hours = 0;  // 0 = no limit
  std::vector<ChangedFile> changed;  // since the suite in `out` was made

  /// The file that an attention was planned by in place of its own; empty = its own.
  std::filesystem::path kept(const AttentionSpec& attention) const;
};

struct SuiteCell {
  Config config;
  std::vector<std::string> sets;
  std::filesystem::path run;  // the folder
  std::string point;          // of a grid, "optimizer.lr=0.001"; "" = of none
  // What the budget sets and the protocol gives this attention itself, which stands.
  std::vector<std::string> left;

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
/// protocol. Throws UsageError on wrong names, options and values, where two cells would share a
/// folder, and where coloured_tasks() does.
Suite plan_suite(const SuiteRequest& request, double fraction = 1);

/// Of each task what its budget, or the protocol's own file, sets and the protocol's entries for
/// attentions go over, in words.
std::vector<std::string> left_notes(const Suite& suite);

/// Throws UsageError where two attentions are one by their options in effect, and by their file: it
/// would be trained, and measured, twice.
void check_attentions(const Suite& suite);

/// Throws UsageError with this advice where two cells would share a folder.
void check_folders(const Suite& suite, const std::string& advice);

/// The tasks whose cells read their images in colour (`input.colours` rgb). Throws UsageError where
/// other cells of such a task read them in grey, as the data of a task are of one kind.
std::vector<std::string> coloured_tasks(const Suite& suite);

/// The overrides that leave a run `fraction` of its steps: training.steps, schedule.warmup and, of
/// kind step, schedule.decay_every, each times the fraction, and the same of its pretraining. The
/// evaluations stay as many steps apart as they were, so that all of a run's time shrinks alike.
/// Throws UsageError where fewer than 2 steps would be left.
std::vector<std::string> cut_sets(const Config& config, double fraction);

}  // namespace lra::suite
