// A suite's data: where they lie, and samples of them that its cells would cut although they mean
// nothing but as a whole: expressions.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/suite/suite.h"

namespace lra::suite {

/// Where a suite in `out` keeps the data that it makes.
std::filesystem::path suite_data_folder(const std::filesystem::path& out);

/// What OUT/fingerprints.json holds: which data the cells of a task are trained on, by task. Empty
/// where there is no such file yet.
json kept_fingerprints(const std::filesystem::path& out);

/// Throws Error: the data of a task in `directory`, of fingerprint `found`, are not those that its
/// cells are trained on, of fingerprint `kept`.
[[noreturn]] void throw_other_data(const Suite& suite, const std::string& task,
                                   const std::filesystem::path& directory, const std::string& found,
                                   const std::string& kept);

/// Throws so where those in --data are, by kept_fingerprints().
void check_given_fingerprints(const Suite& suite);

/// Where each task's data are or will be, by task: of coloured_tasks() in colour, where they are
/// made here. What the suite made for its cells is not made again.
std::vector<TaskData> suite_data(const Suite& suite);

/// Throws UsageError where a budget's `input.length`, and not the user's own, cuts samples of cells
/// that are still to run, in data that are there.
void check_cut_samples(const Suite& suite, const std::vector<TaskData>& data);

/// Says of each task where the user's own does.
void say_cut_samples(const Suite& suite, const std::vector<TaskData>& data);

}  // namespace lra::suite
