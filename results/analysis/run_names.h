// What runs are called, by the folders that they lie in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/records/result.h"

namespace lra {

/// A name for each result, of [a-z0-9-] alone, for files: its folder below the one that holds all
/// of them, "listops-nystrom-seed0" of a suite, "a" of runs/a; task, attention and seed where it
/// was read from no file. All are different.
std::vector<std::string> page_names(std::span<const Result> results);

/// The name that the user gave the run's folder; "" of a suite's cell, whose folder is the seed's,
/// and of a result that was read from no file.
std::string given_name(const Result& result);

}  // namespace lra
