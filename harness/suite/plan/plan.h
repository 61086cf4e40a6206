// The plan of a suite: its cells with what they are predicted to take, and totals.
#pragma once

#include <vector>

#include "harness/suite/plan/predict.h"
#include "results/print/table.h"

namespace lra::suite {

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

}  // namespace lra::suite
