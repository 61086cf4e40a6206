// A task: where its data comes from and how a sample is shown. One file a task, one registration
// line.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lra/data/prepared.h"

namespace lra {

/// What `lra data prepare` passes on. Negative counts mean the task's own default.
struct PrepareOptions {
  std::filesystem::path out;
  std::filesystem::path source;  // empty: generate
  uint64_t seed = 0;
  bool seed_given = false;  // then it is refused where nothing is drawn
  int64_t train = -1, dev = -1, test = -1;
  int64_t min_length = -1, max_length = -1;  // tokens a sample, both excluded; ListOps
  int64_t resolution = -1;                   // pixels a side; Pathfinder
  std::string difficulty;                    // easy, intermediate or hard; Pathfinder
  json settings = json::object();            // of the task's own generator, by name
  bool synthetic = false;                    // a labelled stand-in for data that cannot be obtained
  int64_t threads = 0;                       // 0 = all cores; the result does not depend on it
  int64_t memory = 0;                        // bytes that are free; 0 = all of the machine's
  /// Called now and then with (done, total, what); may be empty.
  std::function<void(int64_t, int64_t, const std::string&)> progress;
  /// Set by Ctrl-C: preparation stops with an Error and leaves nothing behind. May be null.
  const std::atomic<bool>* stop = nullptr;

  /// In the order of kSplits; -1 = not given.
  std::array<int64_t, 3> counts() const { return {train, dev, test}; }
};

struct Task {
  std::string name;   // "listops"
  std::string title;  // "ListOps"
  int64_t classes = 0;
  int64_t vocabulary = 0;        // ids are below it; 0 is padding where not said otherwise
  int64_t inputs = 1;            // 2 for Retrieval: each is encoded by itself
  int64_t channels = 1;          // of a position of an input, each a sequence of data and batches
  int64_t length = 0;            // default N
  int64_t dev = 0;               // samples of dev where nobody says how many
  bool whole_samples = false;    // a sample means nothing but as a whole, as an expression
  bool position_labels = false;  // labels stand at positions of the one input; a class is an id
  bool image = false;            // the ids are the values of a square image, row by row
  bool coloured = false;         // there are data with `input.colours` rgb
  double masked_share = 0.15;    // of tokens that Objective::masked hides (Amos et al. 2023)
  // Options of the manifest (counts, lengths, ...) of the data that published numbers are of, and
  // "train+dev", the sum of two; empty where nothing is published.
  json public_data = json::object();
  std::string description;  // one line
  std::string source;       // what `--source` takes, where data cannot be generated; else empty
  std::string stand_in;     // the task whose source serves for a labelled stand-in; empty = none
  std::function<void(const PrepareOptions&)> prepare;
  /// Throws Error that says what is wrong where a sample of one input cannot be one of the task, or
  /// has another label; empty: any ids may.
  std::function<void(std::span<const uint16_t>, int64_t label)> check_sample = {};
  /// A sample's tokens as text to look at.
  std::function<std::string(std::span<const uint16_t>)> render;
  /// The ids of one input that somebody wrote as text; throws Error that says what is wrong where
  /// it can be none of the task's. Empty: the text is ids, "12 0 7".
  std::function<std::vector<uint16_t>(std::string_view)> read_text = {};
  /// How samples are read where `input.brackets` is drop; no ids where a task has no brackets.
  IdMap without_brackets = {};
  std::function<std::string(std::span<const uint16_t>)> render_without_brackets = {};
  /// Writes a prepared data set back in its public format (ListOps: LRA's TSV); empty where there
  /// is none.
  std::function<void(const PreparedData&, const std::filesystem::path& out)> export_data;

  /// Of a sample of data, and of a batch.
  int64_t sequences() const { return inputs * channels; }
};

/// How data that are no stand-in differ from the public ones: "difficulty easy, not hard". An
/// option that the manifest does not have says nothing.
std::vector<std::string> unlike_public(const Task& task, const Manifest& manifest);

bool register_task(Task task);
/// All tasks in the order of their registration names.
std::vector<const Task*> tasks();
/// Opens prepared data (PreparedData) and holds its manifest against the task: vocabulary, classes,
/// inputs. Throws Error where they differ. Samples are as task(task_name, reading) has them;
/// without a reading as they were prepared.
PreparedData open_data(const std::filesystem::path& directory, const std::string& task_name,
                       bool check_hashes, std::optional<Reading> reading = std::nullopt,
                       OpenedSplits opened = OpenedSplits::all);

/// Holds every sample of opened data against its task: Task::check_sample, and images square and of
/// the task's size, or of `resolution` where the manifest has it; and the manifest's counts against
/// them. Throws Error that names split and sample.
void check_samples(const PreparedData& data);

/// The ids of each sequence of a sample that somebody wrote as one line, with a tab between the
/// sequences of a task of several; as data have them, so before a Reading's IdMap. Throws Error
/// that says what is wrong.
std::vector<std::vector<uint16_t>> sample_of_line(const Task& task, std::string_view line);

/// The task of that name; throws UsageError that lists the valid names and the nearest.
const Task& task(const std::string& name);
/// With the vocabulary, the channels and the text of samples read so. Throws UsageError where a
/// task without brackets is to drop them, or one without colours to have them.
Task task(const std::string& name, const Reading& reading);

}  // namespace lra
