#include "harness/suite/suite_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "attention_variants/base/files.h"
#include "harness/host/progress.h"
#include "harness/suite/cell.h"
#include "harness/suite/suite_folder.h"
#include "harness/training/train_setup.h"
#include "lra/data/manifest.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLength = "input.length";

// A cell that cuts samples of its data.
struct CutCell {
  const SuiteCell* cell = nullptr;
  const TaskData* data = nullptr;
  CutSamples samples;
};

// Data that are not there yet have none.
bool has_whole_samples(const TaskData& data) {
  return task(data.task).whole_samples && fs::exists(data.directory / data.task / kManifestFile);
}

bool is_still_to_run(const SuiteCell& cell) {
  const std::optional<Status> status = final_status(cell.run);
  return !status || is_retryable(cell.run, *status);
}

// Of cells that are still to run, the first of each task and length.
std::vector<CutCell> cut_cells(const Suite& suite, const std::vector<TaskData>& data) {
  std::vector<CutCell> found;
  for (const TaskData& of_task : data) {
    if (!has_whole_samples(of_task)) continue;
    std::set<int64_t> lengths;
    for (const SuiteCell& cell : suite.cells) {
      const int64_t length = cell.config.settings.input.length;
      if (cell.config.task != of_task.task || lengths.contains(length) || !is_still_to_run(cell))
        continue;
      lengths.insert(length);
      const auto samples = cut_samples(
          open_run_data(of_task.directory, cell.config, /*check_hashes=*/false), cell.config);
      if (samples) found.push_back({.cell = &cell, .data = &of_task, .samples = *samples});
    }
  }
  return found;
}

// Whether the budget set the length, and not the user, nor the protocol for this attention.
bool is_of_budget(const Suite& suite, const SuiteCell& cell) {
  const Budget& budget = suite.request.budget;
  const std::string& name = cell.config.task;
  const auto sets_length = [](const std::string& word) { return word_sets(word, kLength); };
  if (!budget.tasks.contains(name) || std::ranges::count(cell.left, kLength) > 0 ||
      std::ranges::any_of(suite.request.sets, sets_length))
    return false;
  const TaskBudget of_task = budget.task(name);
  for (const auto& [key, value] : of_task.set.items()) {
    if (sets_length(key + "=" + value.dump())) return true;
  }
  return false;
}

}  // namespace

fs::path suite_data_folder(const fs::path& out) { return out / "data"; }

json kept_fingerprints(const fs::path& out) {
  if (!fs::exists(out / kFingerprints)) return json::object();
  constexpr const char* kAdvice = "; remove it, and it is made anew";
  const fs::path path = out / kFingerprints;
  const json kept = read_json_object(path, "the fingerprints of a suite's data", kAdvice);
  for (const auto& [name, fingerprint] : kept.items()) {
    if (!fingerprint.is_string())
      throw Error(path.string() + ": " + name + " should be a string, not " + fingerprint.dump() +
                  kAdvice);
  }
  return kept;
}

void throw_other_data(const Suite& suite, const std::string& task, const fs::path& directory,
                      const std::string& found, const std::string& kept) {
  throw Error(fmt::format(
      "the data of {} in {} (fingerprint {}) are not those that the cells of {} are trained on "
      "({}); give the --data that the suite began with, or another --out folder",
      task, directory.string(), found.substr(0, 8), suite.request.out.string(), kept.substr(0, 8)));
}

void check_given_fingerprints(const Suite& suite) {
  const fs::path& given = suite.request.data.given;
  if (given.empty()) return;
  const json all = kept_fingerprints(suite.request.out);
  for (const auto& [name, kept] : all.items()) {
    const fs::path manifest = given / name / kManifestFile;
    if (!fs::exists(manifest)) continue;
    const std::string found = Manifest::read(manifest).fingerprint();
    if (found != kept) throw_other_data(suite, name, given, found, kept);
  }
}

std::vector<TaskData> suite_data(const Suite& suite) {
  DataSources sources = suite.request.data;
  sources.folder = suite_data_folder(suite.request.out);
  for (const std::string& name : coloured_tasks(suite))
    sources.settings[name] = {{"colours", to_string(Colours::rgb)}};
  // What was made is not made again: its source may be gone by now, or out of this host's reach,
  // and another version of the program might make others of it.
  const json kept = kept_fingerprints(suite.request.out);
  for (const std::string& name : suite.request.tasks) {
    const fs::path manifest = sources.folder / name / kManifestFile;
    if (!fs::exists(manifest)) continue;
    auto source = sources.sources.find(name);
    if (source == sources.sources.end() && sources.synthetic)
      source = sources.sources.find(task(name).stand_in);
    const bool gone = source != sources.sources.end() && !fs::exists(source->second);
    if (gone || kept.value(name, "") == Manifest::read(manifest).fingerprint())
      sources.made.insert(name);
  }
  return locate_data(suite.request.tasks, suite.request.budget, sources);
}

void check_cut_samples(const Suite& suite, const std::vector<TaskData>& data) {
  for (const CutCell& cut : cut_cells(suite, data)) {
    if (!is_of_budget(suite, *cut.cell)) continue;
    const bool given = cut.data->directory == suite.request.data.given;
    throw UsageError(fmt::format(
        "budget {} sets input.length {}, which would keep the first {} tokens of samples of {} in "
        "{}, of which the longest has {}: an expression without its end has no value; {}, or give "
        "--set input.length={}",
        suite.request.budget.name, cut.cell->config.settings.input.length, cut.samples.kept,
        cut.data->task, cut.data->directory.string(), cut.samples.longest,
        given ? "leave --data out, so that the suite makes its own, give other data"
              : "let the budget make shorter ones (max_length)",
        cut.samples.longest));
  }
}

void say_cut_samples(const Suite& suite, const std::vector<TaskData>& data) {
  for (const CutCell& cut : cut_cells(suite, data)) {
    const Config& config = cut.cell->config;
    if (!is_of_budget(suite, *cut.cell) && std::ranges::count(config.overridden, kLength) > 0)
      host::say(cut.samples.warning(config));
  }
}

}  // namespace lra::suite
