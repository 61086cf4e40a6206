// Accuracy and training cost, from results to tables. Runs that are not comparable never share a
// table.
#pragma once

#include <span>
#include <vector>

#include "results/print/table.h"
#include "results/published/published.h"
#include "results/records/result.h"

namespace lra {

/// How a cell's interval is written.
enum class IntervalText {
  ends,        // "37.05 [34.96, 39.19]"
  half_width,  // "37.05±2.1": the longer side
};

/// What follows an attention's name in the row of its published numbers.
inline constexpr const char* kPublishedRow = " (published)";

/// What follows the name of a task of stand-in data among others of real ones.
inline constexpr const char* kStandInMark = "*";
/// In cells of IntervalText::half_width: seeds beside these did not end as ok; no seed learned it.
inline constexpr const char* kFailedMark = "†";
inline constexpr const char* kUnlearnedMark = "‡";

/// One table for each recipe (group_by_recipe): at most one data fingerprint a task. Rows are
/// attentions (by label; by label and differing options where one label ran with several), columns
/// tasks and their average. Where the recipe is the protocol's own, a row of the published numbers
/// stands below each attention. A cell is in per cent, with Wilson's 95 % interval of one run, or
/// that of the mean over seeds; or the status word. The best of a column of which every seed
/// learned are bold.
/// Notes name the settings and data, the differences to the published numbers, which attentions are
/// not distinguishable from the best of a task (standings), and warn of what was not learned.
std::vector<Table> accuracy_tables(std::span<const Result> results,
                                   std::span<const Published> references = published(),
                                   IntervalText form = IntervalText::ends);

/// For each recipe as above, where a task has at least two attentions: how each stands to the best
/// of its task, with standard deviation over seeds, difference, interval and p.
std::vector<Table> difference_tables(std::span<const Result> results,
                                     std::span<const Published> references = published());

/// For each recipe as above, where there are published numbers of its attentions and tasks: the
/// difference of each to the published number, and whether that lies within the interval.
std::vector<Table> published_difference_tables(std::span<const Result> results,
                                               std::span<const Published> references = published());

/// For each recipe as above: steps/s, tokens/s, peak memory, parameters and steps of every
/// attention and task (medians over seeds). Machines are never mixed: each is a table of its own.
std::vector<Table> training_tables(std::span<const Result> results);

/// The same numbers in long form for other programs, exact, with a column `noisy`.
Table training_long(std::span<const Result> results);

/// For each recipe as above, where there are some: the runs that never left the majority class
/// (Result::never_left_majority), with a warning.
std::vector<Table> majority_tables(std::span<const Result> results);

/// The same numbers in long form for other programs, one row for each recipe, task and attention.
Table accuracy_long(std::span<const Result> results,
                    std::span<const Published> references = published());

/// One row a run, every number of it.
Table results_long(std::span<const Result> results);

}  // namespace lra
